/* SPDX-License-Identifier: Apache-2.0
 * A program that knows nothing of Spillway and wants GPU memory. How it reaches the driver is its
 * first argument, or is fixed when it is compiled; the rest is done in order:
 *
 *   program REACH WORK...
 *
 * REACH  linked        by symbols of the library it is linked with (ASK_LINKED)
 *        dlsym         dlopen($LIBRARY) and dlsym; also dlvsym, deepbind, default
 *        process       dlsym of cuGetProcAddress_v2 or hipGetProcAddress; process1: the older one
 * WORK   CALL:BYTES    alloc, pitch, managed, async, thread (the thread's own stream), pool,
 *                      create, array: allocates and keeps; prints "CALL code C"
 *        free          frees what was kept last
 *        info          prints "info FREE TOTAL"
 *        threads:N:BYTES   N threads allocate at once; prints how many succeeded
 *        raw:BYTES     alloc before init
 *        fork:BYTES    a child allocates, having the driver's state of its own
 *        exec:BYTES    this program again, for `alloc`
 *        reload:N      closes and opens the library N times, and looks up again
 *        churn:N:BYTES allocates and frees N times
 *        last          prints HIP's last error
 *        errno         prints errno, which a call must have left alone
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef uint64_t Address;
typedef void (*Any)(void);

struct Properties {
  int type, handles, location_type, location;
  void* win32;
  unsigned char rest[8];
};
struct Shape {
  size_t width, height;
  unsigned format, channels;
};

static struct {
  int (*init)(unsigned);
  int (*retain)(void**, int);
  int (*push)(void*);
  int (*alloc)(Address*, size_t);
  int (*pitch)(Address*, size_t*, size_t, size_t, unsigned);
  int (*managed)(Address*, size_t, unsigned);
  int (*async)(Address*, size_t, void*);
  int (*thread)(Address*, size_t, void*);
  int (*pool)(Address*, size_t, void*, void*);
  int (*create)(Address*, size_t, const struct Properties*, uint64_t);
  int (*array)(Address*, const struct Shape*);
  int (*free)(Address);
  int (*release)(Address);
  int (*info)(size_t*, size_t*);
  int (*last)(void);
} gpu;

#ifdef ASK_LINKED
#ifdef ASK_HIP
int hipInit(unsigned flags);
int hipMalloc(Address* at, size_t bytes);
int hipMallocManaged(Address* at, size_t bytes, unsigned flags);
int hipMallocAsync(Address* at, size_t bytes, void* stream);
int hipMallocFromPoolAsync(Address* at, size_t bytes, void* pool, void* stream);
int hipMemCreate(Address* at, size_t bytes, const struct Properties* properties, uint64_t flags);
int hipFree(Address at);
int hipMemRelease(Address at);
int hipMemGetInfo(size_t* free_bytes, size_t* total);
int hipGetLastError(void);
static void Reach(const char* how) {
  (void)how;
  gpu.init = &hipInit;
  gpu.alloc = &hipMalloc;
  gpu.managed = &hipMallocManaged;
  gpu.async = &hipMallocAsync;
  gpu.pool = &hipMallocFromPoolAsync;
  gpu.create = &hipMemCreate;
  gpu.free = &hipFree;
  gpu.release = &hipMemRelease;
  gpu.info = &hipMemGetInfo;
  gpu.last = &hipGetLastError;
}
#else
int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void** context, int device);
int cuCtxPushCurrent_v2(void* context);
int cuMemAlloc_v2(Address* at, size_t bytes);
int cuMemAllocPitch_v2(Address* at, size_t* pitch, size_t width, size_t height, unsigned element);
int cuMemAllocManaged(Address* at, size_t bytes, unsigned flags);
int cuMemAllocAsync(Address* at, size_t bytes, void* stream);
int cuMemAllocAsync_ptsz(Address* at, size_t bytes, void* stream);
int cuMemAllocFromPoolAsync(Address* at, size_t bytes, void* pool, void* stream);
int cuMemCreate(Address* at, size_t bytes, const struct Properties* properties, uint64_t flags);
int cuArrayCreate_v2(Address* at, const struct Shape* shape);
int cuMemFree_v2(Address at);
int cuMemRelease(Address at);
int cuMemGetInfo_v2(size_t* free_bytes, size_t* total);
static void Reach(const char* how) {
  (void)how;
  gpu.init = &cuInit;
  gpu.retain = &cuDevicePrimaryCtxRetain;
  gpu.push = &cuCtxPushCurrent_v2;
  gpu.alloc = &cuMemAlloc_v2;
  gpu.pitch = &cuMemAllocPitch_v2;
  gpu.managed = &cuMemAllocManaged;
  gpu.async = &cuMemAllocAsync;
  gpu.thread = &cuMemAllocAsync_ptsz;
  gpu.pool = &cuMemAllocFromPoolAsync;
  gpu.create = &cuMemCreate;
  gpu.array = &cuArrayCreate_v2;
  gpu.free = &cuMemFree_v2;
  gpu.release = &cuMemRelease;
  gpu.info = &cuMemGetInfo_v2;
}
#endif
#else

static void* library;
static const char* reach;

static int Hip(void) { return strstr(getenv("LIBRARY"), "hip") != NULL; }

static void* ByProcess(const char* name, uint64_t flags) {
  void* at = NULL;
  if (strcmp(reach, "process1") == 0) {
    int (*get)(const char*, void**, int, uint64_t) =
        (int (*)(const char*, void**, int, uint64_t))(uintptr_t)dlsym(library, "cuGetProcAddress");
    return get(name, &at, 11080, flags) == 0 ? at : NULL;
  }
  int result = 0;
  int (*get)(const char*, void**, int, uint64_t, int*) =
      (int (*)(const char*, void**, int, uint64_t, int*))(uintptr_t)dlsym(
          library, Hip() ? "hipGetProcAddress" : "cuGetProcAddress_v2");
  if (strcmp(reach, "process2") == 0) { /* By the answer to a question for itself. */
    void* self = NULL;
    if (get("cuGetProcAddress", &self, 12000, 0, &result) != 0) return NULL;
    get = (int (*)(const char*, void**, int, uint64_t, int*))(uintptr_t)self;
  }
  return get(name, &at, 12080, flags, &result) == 0 ? at : NULL;
}

/* The version of the fake's symbols is its file's name. */
static const char* Version(void) {
  const char* const slash = strrchr(getenv("LIBRARY"), '/');
  return slash == NULL ? getenv("LIBRARY") : slash + 1;
}

static Any Find(const char* symbol, const char* name, uint64_t flags) {
  void* at = NULL;
  if (strncmp(reach, "process", 7) == 0) {
    at = ByProcess(name, flags);
    if (at != NULL) return (Any)(uintptr_t)at;
  }
  at = strcmp(reach, "dlvsym") == 0    ? dlvsym(library, symbol, Version())
       : strcmp(reach, "default") == 0 ? dlsym(RTLD_DEFAULT, symbol)
                                       : dlsym(library, symbol);
  return (Any)(uintptr_t)at;
}

#define FIND(member, type, cuda, plain, hip, flags) \
  gpu.member = (type)Find(Hip() ? hip : cuda, Hip() ? hip : plain, flags)

static void Reach(const char* how) {
  reach = how;
  int mode = RTLD_NOW | RTLD_LOCAL;
  if (strcmp(how, "deepbind") == 0) mode |= RTLD_DEEPBIND;
  if (strcmp(how, "default") == 0) mode = RTLD_NOW | RTLD_GLOBAL;
  library = dlopen(getenv("LIBRARY"), mode);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(3);
  }
  (void)dlerror();
  FIND(init, int (*)(unsigned), "cuInit", "cuInit", "hipInit", 0);
  FIND(alloc, int (*)(Address*, size_t), "cuMemAlloc_v2", "cuMemAlloc", "hipMalloc", 0);
  FIND(managed, int (*)(Address*, size_t, unsigned), "cuMemAllocManaged", "cuMemAllocManaged",
       "hipMallocManaged", 0);
  FIND(async, int (*)(Address*, size_t, void*), "cuMemAllocAsync", "cuMemAllocAsync",
       "hipMallocAsync", 0);
  FIND(pool, int (*)(Address*, size_t, void*, void*), "cuMemAllocFromPoolAsync",
       "cuMemAllocFromPoolAsync", "hipMallocFromPoolAsync", 0);
  FIND(create, int (*)(Address*, size_t, const struct Properties*, uint64_t), "cuMemCreate",
       "cuMemCreate", "hipMemCreate", 0);
  FIND(free, int (*)(Address), "cuMemFree_v2", "cuMemFree", "hipFree", 0);
  FIND(release, int (*)(Address), "cuMemRelease", "cuMemRelease", "hipMemRelease", 0);
  FIND(info, int (*)(size_t*, size_t*), "cuMemGetInfo_v2", "cuMemGetInfo", "hipMemGetInfo", 0);
  if (Hip()) {
    gpu.last = (int (*)(void))Find("hipGetLastError", "hipGetLastError", 0);
    return;
  }
  const uint64_t of_thread = strncmp(how, "process", 7) == 0 ? 2 : 0;
  FIND(thread, int (*)(Address*, size_t, void*), "cuMemAllocAsync_ptsz", "cuMemAllocAsync", "",
       of_thread);
  FIND(pitch, int (*)(Address*, size_t*, size_t, size_t, unsigned), "cuMemAllocPitch_v2",
       "cuMemAllocPitch", "", 0);
  FIND(array, int (*)(Address*, const struct Shape*), "cuArrayCreate_v2", "cuArrayCreate", "", 0);
  FIND(retain, int (*)(void**, int), "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", "", 0);
  FIND(push, int (*)(void*), "cuCtxPushCurrent_v2", "cuCtxPushCurrent", "", 0);
  if (dlerror() != NULL) fprintf(stderr, "an error was left in dlerror\n");
}
#endif

static void Begin(void) {
  if (gpu.init(0) != 0) exit(4);
  void* context = NULL;
  if (gpu.retain != NULL && (gpu.retain(&context, 0) != 0 || gpu.push(context) != 0)) exit(5);
}

enum { kKeptMax = 1024 };
static Address kept[kKeptMax];
static int kept_created[kKeptMax];
static int kept_count;

static int Make(const char* call, size_t bytes, Address* at) {
  if (strcmp(call, "alloc") == 0) return gpu.alloc(at, bytes);
  if (strcmp(call, "managed") == 0) return gpu.managed(at, bytes, 1);
  if (strcmp(call, "async") == 0) return gpu.async(at, bytes, NULL);
  if (strcmp(call, "thread") == 0) return gpu.thread(at, bytes, NULL);
  if (strcmp(call, "pool") == 0) return gpu.pool(at, bytes, NULL, NULL);
  if (strcmp(call, "pitch") == 0) {
    size_t pitch = 0;
    return gpu.pitch(at, &pitch, 65536, bytes / 65536, 4);
  }
  if (strcmp(call, "create") == 0) {
    const struct Properties properties = {1, 0, 1, 0, NULL, {0}};
    return gpu.create(at, bytes, &properties, 0);
  }
  if (strcmp(call, "array") == 0) {
    const struct Shape shape = {65536, bytes / 65536 / 4, 0x20, 1};
    return gpu.array(at, &shape);
  }
  fprintf(stderr, "no work: %s\n", call);
  exit(2);
}

static void* Allocate(void* bytes) {
  void* context = NULL;
  if (gpu.retain != NULL && (gpu.retain(&context, 0) != 0 || gpu.push(context) != 0)) return NULL;
  Address at = 0;
  return gpu.alloc(&at, *(size_t*)bytes) == 0 ? bytes : NULL;
}

static void Threads(int count, size_t bytes) {
  enum { kMost = 256 };
  pthread_t threads[kMost];
  int succeeded = 0;
  for (int i = 0; i < count; ++i) pthread_create(&threads[i], NULL, &Allocate, &bytes);
  for (int i = 0; i < count; ++i) {
    void* result = NULL;
    pthread_join(threads[i], &result);
    succeeded += result != NULL;
  }
  printf("threads %d of %d\n", succeeded, count);
}

static void Do(char** program, char* work) {
  char* const call = strtok(work, ":");
  char* const first = strtok(NULL, ":");
  char* const second = strtok(NULL, ":");
  const size_t number = first == NULL ? 0 : strtoull(first, NULL, 10);
  if (strcmp(call, "free") == 0) {
    --kept_count;
    printf("free code %d\n", (kept_created[kept_count] ? gpu.release : gpu.free)(kept[kept_count]));
  } else if (strcmp(call, "info") == 0) {
    size_t free_bytes = 0;
    size_t total = 0;
    const int code = gpu.info(&free_bytes, &total);
    printf("info %zu %zu code %d\n", free_bytes, total, code);
  } else if (strcmp(call, "threads") == 0) {
    Threads((int)number, strtoull(second, NULL, 10));
  } else if (strcmp(call, "churn") == 0) {
    int failed = 0;
    for (size_t i = 0; i < number; ++i) {
      Address at = 0;
      if (gpu.alloc(&at, strtoull(second, NULL, 10)) != 0) {
        ++failed;
      } else {
        gpu.free(at);
      }
    }
    printf("churn %zu failed %d\n", number, failed);
  } else if (strcmp(call, "fork") == 0) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      /* A driver's state does not survive a fork; the fake's does. */
      Address at = 0;
      _exit(gpu.alloc(&at, number));
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("fork code %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  } else if (strcmp(call, "exec") == 0) {
    char text[64];
    snprintf(text, sizeof text, "alloc:%zu", number);
    fflush(stdout);
    execl(program[0], program[0], program[1], text, (char*)NULL);
    exit(6);
#ifndef ASK_LINKED
  } else if (strcmp(call, "reload") == 0) {
    for (size_t i = 0; i < number; ++i) {
      dlclose(library);
      Reach(program[1]);
    }
    Begin();
#endif
  } else if (strcmp(call, "last") == 0) {
    printf("last %d\n", gpu.last());
  } else if (strcmp(call, "errno") == 0) {
    printf("errno %d\n", errno);
    return;
  } else {
    Address at = 0;
    errno = 77;
    const int code = Make(strcmp(call, "raw") == 0 ? "alloc" : call, number, &at);
    const int left = errno;
    if (code == 0) {
      kept_created[kept_count] = strcmp(call, "create") == 0;
      kept[kept_count++] = at;
    }
    printf("%s code %d%s\n", call, code, left == 77 ? "" : ", errno changed");
  }
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  Reach(argv[1]);
  if (argc < 3 || strncmp(argv[2], "raw", 3) != 0) Begin();
  for (int i = 2; i < argc; ++i) Do(argv, argv[i]);
  return 0;
}
