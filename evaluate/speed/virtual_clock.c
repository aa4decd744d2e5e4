/* A clock that stands still until it is told to go on, for the one thread that asks for it. It is preloaded (LD_PRELOAD).
 *
 * LoadGen asks the system for the time, sleeps until a query is due, and takes the time again when an answer is there. For the
 * attached thread, time here is what it was at `cnna_clock_attach`, plus the nanoseconds of `cnna_clock_set`, plus what it has
 * slept; a sleep ends at once. All other threads have the system's time, so that LoadGen's log is written as ever.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
enum { CLOCKS = 8, BILLION = 1000000000 };

static __thread int attached;
static __thread int64_t elapsed;         /* virtual nanoseconds since `cnna_clock_attach` */
static __thread int64_t begun[CLOCKS];   /* what each clock of the system showed then */

static int64_t nanoseconds(const struct timespec *t) { return (int64_t)t->tv_sec * BILLION + t->tv_nsec; }

static struct timespec timespec_of(int64_t ns) {
    struct timespec t = {ns / BILLION, ns % BILLION};
    return t;
}

static int system_time(clockid_t clock, struct timespec *t) {
    static int (*next)(clockid_t, struct timespec *);
    if (!next) next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    return next(clock, t);
}

/* Clocks of time itself; those of a processor's time (2, 3) stay the system's. */
static int is_virtual(clockid_t clock) { return attached && clock >= 0 && clock < CLOCKS && clock != 2 && clock != 3; }

EXPORT void cnna_clock_attach(void) {
    struct timespec t;
    for (int clock = 0; clock < CLOCKS; clock++) begun[clock] = system_time(clock, &t) ? 0 : nanoseconds(&t);
    elapsed = 0;
    attached = 1;
}

EXPORT int64_t cnna_clock_now(void) { return elapsed; }

EXPORT void cnna_clock_set(int64_t ns) { elapsed = ns; }

EXPORT int clock_gettime(clockid_t clock, struct timespec *t) {
    if (!is_virtual(clock)) return system_time(clock, t);
    *t = timespec_of(begun[clock] + elapsed);
    return 0;
}

EXPORT int nanosleep(const struct timespec *wanted, struct timespec *left) {
    static int (*next)(const struct timespec *, struct timespec *);
    if (!next) next = (int (*)(const struct timespec *, struct timespec *))dlsym(RTLD_NEXT, "nanosleep");
    if (!attached) return next(wanted, left);
    elapsed += nanoseconds(wanted);
    return 0;
}

EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted, struct timespec *left) {
    static int (*next)(clockid_t, int, const struct timespec *, struct timespec *);
    if (!next) next = (int (*)(clockid_t, int, const struct timespec *, struct timespec *))dlsym(RTLD_NEXT, "clock_nanosleep");
    if (!is_virtual(clock)) return next(clock, flags, wanted, left);
    int64_t ns = nanoseconds(wanted);
    if (!(flags & TIMER_ABSTIME)) elapsed += ns;
    else if (ns > begun[clock] + elapsed) elapsed = ns - begun[clock];
    return 0;
}

/* A timed wait is for another thread, which lives in the system's time: its deadline is moved there, and when it has passed, it has
 * passed here too. All clocks of the attached thread are apart from the system's by the same time. */
static struct timespec in_system_time(const struct timespec *deadline) {
    struct timespec now;
    system_time(CLOCK_MONOTONIC, &now);
    return timespec_of(nanoseconds(deadline) - elapsed + nanoseconds(&now) - begun[CLOCK_MONOTONIC]);
}

static int waited(int result, int error, clockid_t clock, const struct timespec *deadline) {
    int64_t at = nanoseconds(deadline) - begun[clock];
    if (result && error == ETIMEDOUT && at > elapsed) elapsed = at;
    return result;
}

/* The clock of a condition is not known; that of the day is decades ahead of the one that counts from the computer's start. */
static clockid_t clock_of(const struct timespec *deadline) {
    return nanoseconds(deadline) < begun[CLOCK_REALTIME] / 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

static void *newest(const char *name, const char *version) {
    void *found = dlvsym(RTLD_NEXT, name, version); /* the plain name may be that of an older interface */
    return found ? found : dlsym(RTLD_NEXT, name);
}

typedef int wait_fn(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
typedef int clock_wait_fn(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
typedef int sem_wait_fn(sem_t *, const struct timespec *);
typedef int sem_clock_wait_fn(sem_t *, clockid_t, const struct timespec *);

EXPORT int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *deadline) {
    static wait_fn *next;
    if (!next) next = (wait_fn *)newest("pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!attached) return next(cond, mutex, deadline);
    struct timespec moved = in_system_time(deadline);
    int result = next(cond, mutex, &moved);
    return waited(result, result, clock_of(deadline), deadline);
}

EXPORT int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *deadline) {
    static clock_wait_fn *next;
    if (!next) next = (clock_wait_fn *)dlsym(RTLD_NEXT, "pthread_cond_clockwait");
    if (!next) return ENOSYS;
    if (!attached) return next(cond, mutex, clock, deadline);
    struct timespec moved = in_system_time(deadline);
    int result = next(cond, mutex, clock, &moved);
    return waited(result, result, clock, deadline);
}

EXPORT int sem_timedwait(sem_t *semaphore, const struct timespec *deadline) {
    static sem_wait_fn *next;
    if (!next) next = (sem_wait_fn *)dlsym(RTLD_NEXT, "sem_timedwait");
    if (!attached) return next(semaphore, deadline);
    struct timespec moved = in_system_time(deadline);
    int result = next(semaphore, &moved);
    return waited(result, errno, CLOCK_REALTIME, deadline);
}

EXPORT int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *deadline) {
    static sem_clock_wait_fn *next;
    if (!next) next = (sem_clock_wait_fn *)dlsym(RTLD_NEXT, "sem_clockwait");
    if (!next) {
        errno = ENOSYS;
        return -1;
    }
    if (!attached) return next(semaphore, clock, deadline);
    struct timespec moved = in_system_time(deadline);
    int result = next(semaphore, clock, &moved);
    return waited(result, errno, clock, deadline);
}
