// Room first: who takes something out of one place and puts it into another
// asks for the room before, where having no memory changes nothing yet.
#pragma once

#include <vector>

namespace spillway {

// Then one push_back needs no memory. Throws bad_alloc.
template <typename T>
void RoomForOne(std::vector<T>& in) {
  if (in.size() == in.capacity()) in.reserve(2 * in.size() + 16);
}

}  // namespace spillway
