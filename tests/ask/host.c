/* SPDX-License-Identifier: Apache-2.0
 * Loads module.c and lets it take memory:  host MODULE BYTES */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  void* const module = argc == 3 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (module == NULL) return 3;
  int (*const take)(size_t) = (int (*)(size_t))(uintptr_t)dlsym(module, "Take");
  /* Without the driver in the program's own scope there is no such symbol there. */
  const int hidden = dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") == NULL && dlerror() != NULL;
  printf("module code %d, hidden %d\n", take(strtoull(argv[2], NULL, 10)), hidden);
  return 0;
}
