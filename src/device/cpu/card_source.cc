#include "device/cpu/card_source.h"

#include <utility>

namespace spillway {

CardSource::CardSource(std::shared_ptr<Device> device, std::string_view card)
    : device_(std::move(device)),
      name_(card.empty() ? std::string("card") : "card:" + std::string(card)) {}

}  // namespace spillway
