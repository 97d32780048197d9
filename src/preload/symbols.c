/* SPDX-License-Identifier: Apache-2.0
 * A program reaches a driver's functions in three ways: it is linked with the driver (then the
 * loader finds our symbols first), it asks dlsym or dlvsym, or it asks the driver by name
 * (process.c). dlsym answers by who calls it, so for every name but the driver's it must be
 * called as if from the program: a few instructions below choose between the next dlsym and ours,
 * and jump there with the program's own return address. */
#include <dlfcn.h>
#include <string.h>

#include "preload/preload.h"

__thread int spillway_depth __attribute__((tls_model("initial-exec"))) = 0;

typedef void* (*Dlsym)(void*, const char*);
typedef void* (*Dlvsym)(void*, const char*, const char*);

static Dlsym libc_dlsym;
static Dlsym next_dlsym;
static Dlvsym next_dlvsym;

/* Without a dlsym behind ours, no symbol is found. */
SPILLWAY_PLAIN static void* NoDlsym(void* handle, const char* name) {
  (void)handle;
  (void)name;
  return NULL;
}
SPILLWAY_PLAIN static void* NoDlvsym(void* handle, const char* name, const char* version) {
  (void)handle;
  (void)name;
  (void)version;
  return NULL;
}

/* The C library's own, and by it the next in line: another library may stand in front of dlsym,
 * too. Before glibc 2.34 dlsym was in libdl. */
SPILLWAY_PLAIN static void FindNext(void) {
  void* sym = SpillwayFindStarted("libc.so", "dlsym");
  void* vsym = SpillwayFindStarted("libc.so", "dlvsym");
  if (sym == NULL) sym = SpillwayFindStarted("libdl.so", "dlsym");
  if (vsym == NULL) vsym = SpillwayFindStarted("libdl.so", "dlvsym");
  __atomic_store_n(&libc_dlsym, sym == NULL ? &NoDlsym : (Dlsym)(uintptr_t)sym, __ATOMIC_RELEASE);
  void* next = libc_dlsym(RTLD_NEXT, "dlsym");
  void* next_versioned = libc_dlsym(RTLD_NEXT, "dlvsym");
  if (next == NULL) next = sym;
  if (next_versioned == NULL) next_versioned = vsym;
  __atomic_store_n(&next_dlvsym,
                   next_versioned == NULL ? &NoDlvsym : (Dlvsym)(uintptr_t)next_versioned,
                   __ATOMIC_RELEASE);
  __atomic_store_n(&next_dlsym, next == NULL ? &NoDlsym : (Dlsym)(uintptr_t)next, __ATOMIC_RELEASE);
}

SPILLWAY_PLAIN static Dlsym Next(void) {
  if (__atomic_load_n(&next_dlsym, __ATOMIC_ACQUIRE) == NULL) FindNext();
  return next_dlsym;
}

SPILLWAY_PLAIN static bool SameName(const char* a, const char* b) {
  for (; *a != '\0' && *a == *b; ++a) ++b;
  return *a == *b;
}

SPILLWAY_PLAIN struct Call* SpillwayCallNamed(const char* name) {
  if (name == NULL || (name[0] != 'c' && name[0] != 'h')) return NULL;
  if (name[1] != 'u' && (name[1] != 'i' || name[2] != 'p')) return NULL;
  for (size_t i = 0; i < spillway_call_count; ++i) {
    if (SameName(spillway_calls[i].name, name)) return &spillway_calls[i];
  }
  return NULL;
}

struct Call* SpillwayCallAskedAs(const char* name, int version) {
  struct Call* best = NULL;
  if (name == NULL) return NULL;
  for (size_t i = 0; i < spillway_call_count; ++i) {
    struct Call* const call = &spillway_calls[i];
    if (call->asked_as == NULL || call->since > version || strcmp(call->asked_as, name) != 0) {
      continue;
    }
    if (best == NULL || call->since > best->since) best = call;
  }
  return best != NULL ? best : SpillwayCallNamed(name);
}

/* --- which function is called instead --- */

void* SpillwayInstead(struct Call* call, void* real, const struct Driver* driver) {
  if (real == NULL || driver == NULL) return real;
  if (call->kind == kShownCall && !SpillwaySettings()->show) return real;
  if (SpillwayIsOwn(real)) return real;
  for (int i = 1; i < kSlots; ++i) {
    struct Slot* const slot = &call->slots[i];
    if (__atomic_load_n(&slot->real, __ATOMIC_ACQUIRE) == real && slot->driver == driver) {
      return (void*)(uintptr_t)call->ours[i];
    }
  }
  for (int i = 1; i < kSlots; ++i) {
    struct Slot* const slot = &call->slots[i];
    int expected = 0;
    if (!__atomic_compare_exchange_n(&slot->taken, &expected, 1, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED)) {
      continue;
    }
    slot->driver = driver;
    __atomic_store_n(&slot->real, real, __ATOMIC_RELEASE);
    return (void*)(uintptr_t)call->ours[i];
  }
  return real;
}

/* A lookup of ours that finds nothing must not be what the program's dlerror tells. By the C
 * library's own dlsym, which finds what comes next after us and not after another library. */
static void* Quietly(void* handle, const char* name) {
  (void)Next();
  void* const found = libc_dlsym(handle, name);
  if (found == NULL) (void)dlerror();
  return found != NULL && SpillwayIsOwn(found) ? NULL : found;
}

static void* FindIn(void* handle, const char* name) { return Quietly(handle, name); }

/* Behind our own symbols: what comes next for everybody, or what one module has loaded for
 * itself. */
static void* FindBehind(void* from, const char* name) {
  (void)from;
  void* const next = Quietly(RTLD_NEXT, name);
  return next != NULL ? next : SpillwayFindLoaded(name);
}

const struct Slot* SpillwayExported(struct Call* call) {
  struct Slot* const slot = &call->slots[0];
  if (__atomic_load_n(&slot->real, __ATOMIC_ACQUIRE) != NULL) return slot;
  void* const real = FindBehind(NULL, call->name);
  if (real == NULL) return slot;
  const struct Driver* const driver = SpillwayDriver(call->family, &FindBehind, NULL);
  /* Several threads write the same. */
  __atomic_store_n(&slot->driver, driver, __ATOMIC_RELEASE);
  __atomic_store_n(&slot->real, real, __ATOMIC_RELEASE);
  return slot;
}

/* --- dlsym and dlvsym --- */

static void* Found(void* handle, const char* name, void* found) {
  struct Call* const call = SpillwayCallNamed(name);
  if (found == NULL || call == NULL) return found;
  if (SpillwayIsOwn(found)) {
    /* A library behind us hands out its own function under this name, but the loader has taken
     * ours for it: ours calls its. */
    void* const plain = libc_dlsym(handle, name);
    if (plain != NULL && !SpillwayIsOwn(plain)) return found;
    /* Found for everybody. Without us there would be what is behind, or nothing. */
    return libc_dlsym(RTLD_NEXT, name) == NULL ? NULL : found;
  }
  if (handle == RTLD_DEFAULT) return found; /* A library in front of us, which calls us. */
  return SpillwayInstead(call, found, SpillwayDriver(call->family, &FindIn, handle));
}

static void* OurDlsym(void* handle, const char* name) {
  return Found(handle, name, Next()(handle, name));
}

static void* OurDlvsym(void* handle, const char* name, const char* version) {
  (void)Next();
  return Found(handle, name, next_dlvsym(handle, name, version));
}

/* RTLD_NEXT is asked by libraries that stand in front of the driver themselves: they must find
 * what is behind them. The program itself finds our symbols that way. */
__attribute__((used)) SPILLWAY_PLAIN void* spillway_choose_dlsym(void* handle, const char* name) {
  const Dlsym next = Next();
  const bool ours = handle != RTLD_NEXT && SpillwayCallNamed(name) != NULL;
  return (void*)(uintptr_t)(ours ? &OurDlsym : next);
}

__attribute__((used)) SPILLWAY_PLAIN void* spillway_choose_dlvsym(void* handle, const char* name) {
  (void)Next();
  const bool ours = handle != RTLD_NEXT && SpillwayCallNamed(name) != NULL;
  return (void*)(uintptr_t)(ours ? &OurDlvsym : next_dlvsym);
}

/* Keeps the arguments, asks which function to call, and goes there. */
#if defined(__x86_64__)
#define SPILLWAY_JUMP(name, choose)      \
  __asm__(                               \
      ".text\n"                          \
      ".globl " name                     \
      "\n"                               \
      ".type " name ", @function\n" name \
      ":\n"                              \
      "  .cfi_startproc\n"               \
      "  endbr64\n"                      \
      "  pushq %rdi\n"                   \
      "  .cfi_adjust_cfa_offset 8\n"     \
      "  pushq %rsi\n"                   \
      "  .cfi_adjust_cfa_offset 8\n"     \
      "  pushq %rdx\n"                   \
      "  .cfi_adjust_cfa_offset 8\n"     \
      "  call " choose                   \
      "\n"                               \
      "  popq %rdx\n"                    \
      "  .cfi_adjust_cfa_offset -8\n"    \
      "  popq %rsi\n"                    \
      "  .cfi_adjust_cfa_offset -8\n"    \
      "  popq %rdi\n"                    \
      "  .cfi_adjust_cfa_offset -8\n"    \
      "  jmp *%rax\n"                    \
      "  .cfi_endproc\n"                 \
      ".size " name ", . - " name "\n")
#elif defined(__aarch64__)
#define SPILLWAY_JUMP(name, choose)      \
  __asm__(                               \
      ".text\n"                          \
      ".globl " name                     \
      "\n"                               \
      ".type " name ", %function\n" name \
      ":\n"                              \
      "  .cfi_startproc\n"               \
      "  stp x29, x30, [sp, #-48]!\n"    \
      "  .cfi_def_cfa_offset 48\n"       \
      "  .cfi_offset 29, -48\n"          \
      "  .cfi_offset 30, -40\n"          \
      "  stp x0, x1, [sp, #16]\n"        \
      "  str x2, [sp, #32]\n"            \
      "  bl " choose                     \
      "\n"                               \
      "  mov x16, x0\n"                  \
      "  ldp x0, x1, [sp, #16]\n"        \
      "  ldr x2, [sp, #32]\n"            \
      "  ldp x29, x30, [sp], #48\n"      \
      "  .cfi_def_cfa_offset 0\n"        \
      "  br x16\n"                       \
      "  .cfi_endproc\n"                 \
      ".size " name ", . - " name "\n")
#else
#error "libspillway_ask.so knows x86-64 and aarch64"
#endif

SPILLWAY_JUMP("dlsym", "spillway_choose_dlsym");
SPILLWAY_JUMP("dlvsym", "spillway_choose_dlvsym");
