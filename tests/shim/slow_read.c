/* Preloaded into the server by tests/stall.rs: while the file named by
 * SLOW_WHILE exists, each read of the file named by SLOW_FILE behaves as on a
 * disk that has stalled. A read that must not wait is told that it would. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static int is_slow(int file) {
    const char *slow = getenv("SLOW_FILE"), *while_there = getenv("SLOW_WHILE");
    char link[64], path[4096];
    if (!slow || !while_there || access(while_there, F_OK) != 0) return 0;
    strcpy(link, "/proc/self/fd/");
    char digits[16], *end = digits + sizeof digits;
    *--end = 0;
    do *--end = '0' + file % 10; while (file /= 10);
    strcat(link, end);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strncmp(path, slow, strlen(slow)) == 0;
}

static void stall(int file) {
    struct timespec pause = {0, 10 * 1000 * 1000};
    while (is_slow(file)) nanosleep(&pause, NULL);
}

#define READER(name, ...) ((ssize_t (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))

ssize_t pread(int file, void *to, size_t count, off_t at) {
    stall(file);
    return READER(pread, int, void *, size_t, off_t)(file, to, count, at);
}

ssize_t pread64(int file, void *to, size_t count, off64_t at) {
    stall(file);
    return READER(pread64, int, void *, size_t, off64_t)(file, to, count, at);
}

ssize_t preadv2(int file, const struct iovec *to, int parts, off_t at, int flags) {
    if (flags & RWF_NOWAIT) {
        if (is_slow(file)) {
            errno = EAGAIN;
            return -1;
        }
    } else {
        stall(file);
    }
    return READER(preadv2, int, const struct iovec *, int, off_t, int)(file, to, parts, at, flags);
}
