// SPDX-License-Identifier: Apache-2.0
// Which lock protects what, said so that clang can check it (-Wthread-safety). Other
// compilers see nothing. The locks that carry these annotations are in base/mutex.h.
//
//   Mutex mutex_;
//   Requests open_ SPILLWAY_GUARDED_BY(mutex_);
//   void Close(Request* request) SPILLWAY_REQUIRES(mutex_);
//
// A lambda is checked as a function of its own: where it runs with the lock held it
// says so, too, `[this]() SPILLWAY_REQUIRES(mutex_) { ... }`. Constructors and
// destructors are not checked: no other thread has the object then.
#pragma once

#if defined(__clang__)
#define SPILLWAY_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define SPILLWAY_THREAD_ANNOTATION(x)
#endif

// --- members ---

// Read and written only with this mutex held.
#define SPILLWAY_GUARDED_BY(mutex) SPILLWAY_THREAD_ANNOTATION(guarded_by(mutex))
// The pointer may be read by anyone; what it points to needs the mutex.
#define SPILLWAY_PT_GUARDED_BY(mutex) SPILLWAY_THREAD_ANNOTATION(pt_guarded_by(mutex))

// --- functions ---

// The caller holds the mutex, and still holds it on return.
#define SPILLWAY_REQUIRES(...) SPILLWAY_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
// The same for a shared mutex that the caller holds at least for reading.
#define SPILLWAY_REQUIRES_SHARED(...) \
  SPILLWAY_THREAD_ANNOTATION(requires_shared_capability(__VA_ARGS__))
// The caller does not hold the mutex: the function takes it, or waits for a thread that does.
#define SPILLWAY_EXCLUDES(...) SPILLWAY_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))

// Lock on entry and leave locked; the reverse; and lock if it returns the first argument.
#define SPILLWAY_ACQUIRE(...) SPILLWAY_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define SPILLWAY_ACQUIRE_SHARED(...) \
  SPILLWAY_THREAD_ANNOTATION(acquire_shared_capability(__VA_ARGS__))
#define SPILLWAY_RELEASE(...) SPILLWAY_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define SPILLWAY_RELEASE_SHARED(...) \
  SPILLWAY_THREAD_ANNOTATION(release_shared_capability(__VA_ARGS__))
#define SPILLWAY_RELEASE_GENERIC(...) \
  SPILLWAY_THREAD_ANNOTATION(release_generic_capability(__VA_ARGS__))
#define SPILLWAY_TRY_ACQUIRE(...) SPILLWAY_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))

// The function returns a reference to this mutex.
#define SPILLWAY_RETURN_CAPABILITY(mutex) SPILLWAY_THREAD_ANNOTATION(lock_returned(mutex))
// The mutex is held here for a reason that clang cannot see; a comment says which.
#define SPILLWAY_ASSERT_HELD(...) SPILLWAY_THREAD_ANNOTATION(assert_capability(__VA_ARGS__))
// Not checked, for a reason that a comment beside it gives.
#define SPILLWAY_NO_THREAD_SAFETY_ANALYSIS SPILLWAY_THREAD_ANNOTATION(no_thread_safety_analysis)

// --- types ---

#define SPILLWAY_CAPABILITY(name) SPILLWAY_THREAD_ANNOTATION(capability(name))
#define SPILLWAY_SCOPED_CAPABILITY SPILLWAY_THREAD_ANNOTATION(scoped_lockable)
