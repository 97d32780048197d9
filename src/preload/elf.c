/* SPDX-License-Identifier: Apache-2.0
 * Finds functions in the libraries that are loaded, by their own tables. We stand in front of
 * dlsym, so the C library's dlsym can't be found by dlsym; and a driver that a module of the
 * program has loaded for itself is in no scope that dlsym would search for us. */
#include <elf.h>
#include <link.h>

#include "preload/preload.h"

struct Tables {
  const ElfW(Sym) * symbols;
  const char* names;
  const uint32_t* gnu_hash;
  const uint32_t* sysv_hash;
  const ElfW(Half) * versions;
};

/* glibc has replaced most offsets by addresses; the kernel's own object has offsets. */
SPILLWAY_PLAIN static const void* At(ElfW(Addr) base, ElfW(Addr) value) {
  return (const void*)(value < base ? base + value : value);
}

SPILLWAY_PLAIN static bool ReadTables(ElfW(Addr) base, const ElfW(Dyn) * dynamic,
                                      struct Tables* tables) {
  tables->symbols = NULL;
  tables->names = NULL;
  tables->gnu_hash = tables->sysv_hash = NULL;
  tables->versions = NULL;
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    const void* const at = At(base, dynamic->d_un.d_ptr);
    if (dynamic->d_tag == DT_SYMTAB) tables->symbols = at;
    if (dynamic->d_tag == DT_STRTAB) tables->names = at;
    if (dynamic->d_tag == DT_GNU_HASH) tables->gnu_hash = at;
    if (dynamic->d_tag == DT_HASH) tables->sysv_hash = at;
    if (dynamic->d_tag == DT_VERSYM) tables->versions = at;
  }
  return tables->symbols != NULL && tables->names != NULL;
}

SPILLWAY_PLAIN static bool SameText(const char* a, const char* b) {
  for (; *a != '\0' && *a == *b; ++a) ++b;
  return *a == *b;
}

/* Versions above 0x8000 are those of old programs. */
SPILLWAY_PLAIN static const ElfW(Sym) *
    Fits(const struct Tables* tables, uint32_t index, const char* name) {
  const ElfW(Sym)* const symbol = &tables->symbols[index];
  if (symbol->st_shndx == SHN_UNDEF || ELF32_ST_TYPE(symbol->st_info) != STT_FUNC) return NULL;
  if (tables->versions != NULL && (tables->versions[index] & 0x8000U) != 0) return NULL;
  return SameText(tables->names + symbol->st_name, name) ? symbol : NULL;
}

SPILLWAY_PLAIN static const ElfW(Sym) * ByGnuHash(const struct Tables* tables, const char* name) {
  const uint32_t* const table = tables->gnu_hash;
  const uint32_t buckets = table[0];
  const uint32_t first = table[1];
  const uint32_t* const bucket =
      (const uint32_t*)(const void*)((const ElfW(Addr)*)(const void*)(table + 4) + table[2]);
  const uint32_t* const chain = bucket + buckets;
  if (buckets == 0) return NULL;
  uint32_t hash = 5381;
  for (const char* c = name; *c != '\0'; ++c) hash = hash * 33 + (unsigned char)*c;
  uint32_t index = bucket[hash % buckets];
  if (index < first) return NULL;
  for (;; ++index) {
    const uint32_t here = chain[index - first];
    const ElfW(Sym)* const found = (here | 1) == (hash | 1) ? Fits(tables, index, name) : NULL;
    if (found != NULL) return found;
    if ((here & 1) != 0) return NULL;
  }
}

SPILLWAY_PLAIN static const ElfW(Sym) * BySysvHash(const struct Tables* tables, const char* name) {
  const uint32_t count = tables->sysv_hash[1];
  for (uint32_t index = 0; index < count; ++index) {
    const ElfW(Sym)* const found = Fits(tables, index, name);
    if (found != NULL) return found;
  }
  return NULL;
}

/* Made by the linker: where this library, or the program it is linked into, begins and ends. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

SPILLWAY_PLAIN bool SpillwayIsOwn(const void* at) {
  return (uintptr_t)at >= (uintptr_t)__ehdr_start && (uintptr_t)at < (uintptr_t)_end;
}

SPILLWAY_PLAIN static void* Search(ElfW(Addr) base, const ElfW(Dyn) * dynamic, const char* name) {
  struct Tables tables;
  if (dynamic == NULL || !ReadTables(base, dynamic, &tables)) return NULL;
  const ElfW(Sym)* const symbol = tables.gnu_hash != NULL    ? ByGnuHash(&tables, name)
                                  : tables.sysv_hash != NULL ? BySysvHash(&tables, name)
                                                             : NULL;
  return symbol == NULL ? NULL : (void*)(base + symbol->st_value);
}

/* The libraries that a program is started with come first, and stay: no lock is needed to walk to
 * the C library. Nothing of a sanitizer may be called here, so not dl_iterate_phdr. */
SPILLWAY_PLAIN void* SpillwayFindStarted(const char* library, const char* name) {
  for (const struct link_map* map = _r_debug.r_map; map != NULL; map = map->l_next) {
    const char* file = map->l_name;
    for (const char* c = file; c != NULL && *c != '\0'; ++c) {
      if (*c == '/') file = c + 1;
    }
    const char* want = library;
    for (; file != NULL && *want != '\0' && *want == *file; ++want) ++file;
    if (file != NULL && *want == '\0') return Search(map->l_addr, map->l_ld, name);
  }
  return NULL;
}

struct Wanted {
  const char* name;
  void* found;
};

static int Look(struct dl_phdr_info* object, size_t size, void* data) {
  struct Wanted* const wanted = data;
  const ElfW(Dyn)* dynamic = NULL;
  (void)size;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    if (object->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    dynamic = (const ElfW(Dyn)*)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
  }
  if (SpillwayIsOwn(dynamic)) return 0;
  wanted->found = Search(object->dlpi_addr, dynamic, wanted->name);
  return wanted->found != NULL;
}

void* SpillwayFindLoaded(const char* name) {
  struct Wanted wanted = {name, NULL};
  dl_iterate_phdr(&Look, &wanted);
  return wanted.found;
}
