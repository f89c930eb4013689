/* Before a process's own libc (LD_PRELOAD): its wall clock is SHIFTED_CLOCK_S seconds ahead, its other clocks are right. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>

static time_t shift(void)
{
    const char *seconds = getenv("SHIFTED_CLOCK_S");
    return seconds ? atol(seconds) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    static int (*true_time)(clockid_t, struct timespec *);
    if (!true_time)
        true_time = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = true_time(clock, at);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        at->tv_sec += shift();
    return result;
}

int gettimeofday(struct timeval *at, void *zone)
{
    struct timespec now;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return result;
}

time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}

/* A time of the wall clock as it is to the kernel; the seconds of other clocks are few. */
static struct timespec right(const struct timespec *until)
{
    struct timespec found = *until;
    if (found.tv_sec > 1000000000)
        found.tv_sec -= shift();
    return found;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
    struct timespec found = right(until);
    int (*true_wait)() = (int (*)())dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    return true_wait(condition, mutex, &found);
}

int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until)
{
    struct timespec found = right(until);
    int (*true_wait)() = (int (*)())dlsym(RTLD_NEXT, "cnd_timedwait");
    return true_wait(condition, mutex, &found);
}
