// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/card_source.h"

#include <utility>

namespace spillway {

CardSource::CardSource(std::shared_ptr<Device> device, std::string_view card)
    : device_(std::move(device)),
      name_(!device_->host_readable() ? std::string(device_->name())
            : card.empty()            ? std::string("card")
                                      : "card:" + std::string(card)) {}

}  // namespace spillway
