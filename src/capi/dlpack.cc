// SPDX-License-Identifier: Apache-2.0
// The C ABI: leases as DLPack tensors, so that array libraries read an entry's bytes in place. The
// structs follow DLPack 1.1. The deleter is ours and needs no Python interpreter.
#include <cstdint>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "capi/convert.h"
#include "capi/guard.h"
#include "capi/lease_table.h"
#include "spillway/spillway.h"

namespace spillway::capi {

namespace {

struct DlDevice {
  std::int32_t type;
  std::int32_t id;
};
struct DlType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  std::int32_t ndim;
  DlType type;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct DlManaged {
  DlTensor tensor;
  void* context;
  void (*deleter)(DlManaged* self);
};
struct DlManagedVersioned {
  std::uint32_t major;
  std::uint32_t minor;
  void* context;
  void (*deleter)(DlManagedVersioned* self);
  std::uint64_t flags;
  DlTensor tensor;
};
constexpr std::uint64_t kReadOnly = 1;
constexpr std::int32_t kDimensionsMax = 64;

// The state behind a tensor: the lease, and the shape and strides it points to.
struct Held {
  Lease lease;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  DlManaged plain{};
  DlManagedVersioned versioned{};
};

template <typename Managed>
void Delete(Managed* self) {
  delete static_cast<Held*>(self->context);
}

Status CheckShape(const spillway_shape& shape) {
  if (shape.ndim < 0 || shape.ndim > kDimensionsMax) {
    return Bad(fmt::format("shape.ndim is {}: from 0 to {}", shape.ndim, kDimensionsMax));
  }
  if (shape.shape == nullptr && shape.ndim > 0) return Bad("shape.shape is NULL");
  if (shape.bits == 0 || shape.bits % 8 != 0 || shape.lanes == 0) {
    return Bad(
        fmt::format("shape: {} bits, {} lanes: whole bytes are needed", shape.bits, shape.lanes));
  }
  return {};
}

void FillStrides(const spillway_shape& shape, Held* held) {
  const auto count = static_cast<std::size_t>(shape.ndim);
  held->shape.assign(shape.shape, shape.shape + count);
  if (shape.strides != nullptr) {
    held->strides.assign(shape.strides, shape.strides + count);
    return;
  }
  held->strides.assign(count, 1);
  for (std::size_t i = count; i-- > 1;) {
    // An overflow is detected by CheckExtent.
    __builtin_mul_overflow(held->strides[i], held->shape[i], &held->strides[i - 1]);
  }
}

// Checks that all elements, from the first to the last, are within the value's bytes.
Status CheckExtent(const spillway_shape& shape, const Held& held, Bytes bytes) {
  const std::int64_t item = std::int64_t{shape.bits} / 8 * shape.lanes;
  std::int64_t last = 0;
  bool empty = false;
  bool wrong = false;
  for (std::size_t i = 0; i < held.shape.size(); ++i) {
    wrong |= held.shape[i] < 0;
    empty |= held.shape[i] == 0;
    if (held.shape[i] <= 1) continue;  // With at most one element the stride is never used.
    std::int64_t reach = 0;
    wrong |= held.strides[i] < 0;
    wrong |= __builtin_mul_overflow(held.shape[i] - 1, held.strides[i], &reach);
    wrong |= __builtin_add_overflow(last, reach, &last);
  }
  std::int64_t end = 0;
  wrong |= __builtin_add_overflow(last, 1, &end) || __builtin_mul_overflow(end, item, &end);
  if (empty && !wrong) end = 0;
  const bool outside =
      wrong || shape.offset > bytes || static_cast<std::uint64_t>(end) > bytes - shape.offset;
  if (!outside) return {};
  return Bad(fmt::format("shape: it does not lie within the value's {} bytes", bytes));
}

DlTensor TensorOf(const spillway_shape& shape, Held* held) {
  DlTensor tensor{};
  tensor.data = const_cast<std::byte*>(held->lease.data() + shape.offset);
  tensor.device = {shape.device_type, shape.device_id};
  tensor.ndim = shape.ndim;
  tensor.type = {shape.code, shape.bits, shape.lanes};
  tensor.shape = held->shape.data();
  tensor.strides = held->strides.data();
  return tensor;
}

}  // namespace
}  // namespace spillway::capi

using namespace spillway;        // NOLINT(google-build-using-namespace)
using namespace spillway::capi;  // NOLINT(google-build-using-namespace)

extern "C" {

spillway_code spillway_lease_to_dlpack(spillway_lease* lease, const spillway_shape* shape,
                                       std::int32_t versioned, void** managed) {
  return Guarded([&]() -> Status {
    if (lease == nullptr || shape == nullptr || managed == nullptr) {
      return Bad("lease, shape or managed is NULL");
    }
    *managed = nullptr;
    spillway_shape read{};
    if (Status ok = ReadSized(shape, "shape", &read); !ok) return ok;
    if (Status ok = CheckShape(read); !ok) return ok;
    auto held = std::make_unique<Held>();
    FillStrides(read, held.get());
    if (Status ok = CheckExtent(read, *held, lease->bytes); !ok) return ok;
    if (lease->handle == 0 || !LeaseTable::Instance().Take(lease->handle, &held->lease)) {
      return Bad("lease: empty, released already, or never given out");
    }
    if (Status ok = CheckExtent(read, *held, held->lease.size()); !ok) {
      lease->handle = LeaseTable::Instance().Put(std::move(held->lease));
      return ok;  // The caller changed its struct meanwhile: the lease is back in the table.
    }
    *lease = spillway_lease{};
    const DlTensor tensor = TensorOf(read, held.get());
    Held* const given = held.release();  // From here on the tensor's deleter owns it.
    if (versioned != 0) {
      given->versioned = {1, 1, given, &Delete<DlManagedVersioned>, kReadOnly, tensor};
      *managed = &given->versioned;
    } else {
      given->plain = {tensor, given, &Delete<DlManaged>};
      *managed = &given->plain;
    }
    return {};
  });
}

}  // extern "C"
