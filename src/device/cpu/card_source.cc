#include "device/cpu/card_source.h"

namespace spillway {

CardSource::CardSource(Device* device, std::string_view card)
    : device_(device), name_(card.empty() ? std::string("card") : "card:" + std::string(card)) {}

}  // namespace spillway
