/*
 * A wrong clock, by LD_PRELOAD: the time of day is ahead of the machine's by the nanoseconds in a mapped file, or behind it.
 * Writing the file makes the clock jump. See mod.rs. Monotonic time is unchanged, because no system lets it jump.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int (*real_clock_gettime)(clockid_t, struct timespec *);
static const volatile int64_t *ahead;

__attribute__((constructor)) static void begin(void) {
    *(void **)&real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("OMEGA_WRONG_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *mapped = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) ahead = mapped;
    close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    /* The constructor of another library may read the clock before ours has run. */
    if (!real_clock_gettime) begin();
    int done = real_clock_gettime(clock, now);
    if (done || !ahead || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return done;
    int64_t shown = now->tv_sec * INT64_C(1000000000) + now->tv_nsec + *ahead;
    now->tv_sec = shown / 1000000000;
    now->tv_nsec = shown % 1000000000;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec shown;
    (void)zone;
    int done = clock_gettime(CLOCK_REALTIME, &shown);
    *now = (struct timeval){shown.tv_sec, shown.tv_nsec / 1000};
    return done;
}

time_t time(time_t *also) {
    struct timespec shown;
    clock_gettime(CLOCK_REALTIME, &shown);
    if (also) *also = shown.tv_sec;
    return shown.tv_sec;
}
