/* A faulty disk for a process, by LD_PRELOAD: it fails on demand, and records what a loss of power may undo.
 *
 * Only files below OMEGA_FAULTY_DIR are affected. Before each change, the former content or name is appended to the journal
 * OMEGA_FAULTY_STATE/journal. After each sync, a record is appended that marks the changes as durable. After the process was
 * killed, `interposed.rs` undoes changes from the journal. The file OMEGA_FAULTY_STATE/mode selects the operations that fail:
 * with "write" or "sync" they fail with EIO, and with "full" no file can grow (ENOSPC). A lock keeps the order of the journal
 * equal to that of the changes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { WRITE = 1, SIZE, SYNC, CREATE, RENAME, REMOVE };

/* The head of a record, as interposed.rs reads it. `names` bytes of paths, each ended by 0, and `kept` bytes of the former
 * content follow. */
struct record {
    uint64_t kind, inode, offset, length, old_size, saved, names, kept;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t saved_files;

static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_write)(int, const void *, size_t);
static int (*real_fsync)(int), (*real_fdatasync)(int), (*real_ftruncate)(int, off_t);
static int (*real_open)(const char *, int, ...);
static int (*real_rename)(const char *, const char *), (*real_unlink)(const char *);

__attribute__((constructor)) static void find_real(void) {
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_write = dlsym(RTLD_NEXT, "write");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
    real_open = dlsym(RTLD_NEXT, "open64");
    real_rename = dlsym(RTLD_NEXT, "rename");
    real_unlink = dlsym(RTLD_NEXT, "unlink");
}

/* Whether a path, without symbolic links, is in or below the faulty folder. */
static int is_meant(const char *path) {
    const char *dir = getenv("OMEGA_FAULTY_DIR");
    size_t length = dir ? strlen(dir) : 0;
    return length && !strncmp(path, dir, length) && (path[length] == '/' || !path[length]);
}

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
    return length > 0 && is_meant(path);
}

static int absolute(const char *path, char *full) {
    char folder[PATH_MAX], real[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    if (!realpath(*folder ? folder : "/", real)) return 0;
    int length = snprintf(full, PATH_MAX, "%s/%s", real, slash ? slash + 1 : path);
    return length < PATH_MAX && is_meant(full);
}

static uint64_t inode_of_folder(const char *path) {
    char folder[PATH_MAX];
    struct stat of = {0};
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    stat(folder, &of);
    return of.st_ino;
}

static void state(char *path, const char *name) {
    const char *folder = getenv("OMEGA_FAULTY_STATE");
    snprintf(path, PATH_MAX, "%s/%s", folder ? folder : "/nonexistent", name);
}

static int mode_is(const char *mode) {
    char path[PATH_MAX], now[16] = {0};
    state(path, "mode");
    int fd = real_open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t count = read(fd, now, sizeof now - 1);
    close(fd);
    return count > 0 && !strcmp(now, mode);
}

static void note(struct record record, const char *names, const void *kept) {
    char path[PATH_MAX];
    state(path, "journal");
    int fd = real_open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    struct iovec parts[] = {{&record, sizeof record}, {(void *)names, record.names}, {(void *)kept, record.kept}};
    size_t all = sizeof record + record.names + record.kept;
    if (fd < 0 || writev(fd, parts, 3) != (ssize_t)all) abort();
    close(fd);
}

/* Records the content of a range of a file, before it is written or truncated. */
static void note_content(enum kind kind, int fd, off_t offset, size_t length) {
    struct stat now;
    char link[64];
    if (fstat(fd, &now)) abort();
    size_t there = now.st_size > offset ? (size_t)(now.st_size - offset) : 0;
    size_t kept = kind == WRITE && there > length ? length : there;
    char *bytes = malloc(kept + 1);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int reader = real_open(link, O_RDONLY | O_CLOEXEC);
    if (!bytes || reader < 0 || pread(reader, bytes, kept, offset) != (ssize_t)kept) abort();
    close(reader);
    note((struct record){kind, now.st_ino, offset, length, now.st_size, 0, 0, kept}, "", bytes);
    free(bytes);
}

/* Links a file to another name, so that it can be restored, and its inode is not reused. Returns 0 if there is no file. */
static uint64_t save(const char *path) {
    char name[32], saved[PATH_MAX];
    struct stat of;
    if (stat(path, &of)) return 0;
    snprintf(name, sizeof name, "saved-%d-%lu", getpid(), (unsigned long)++saved_files);
    state(saved, name);
    if (link(path, saved)) abort();
    return saved_files;
}

static void note_names(enum kind kind, const char *from, const char *to, uint64_t saved) {
    char names[2 * PATH_MAX];
    int length = snprintf(names, sizeof names, "%s%c%s", from, 0, to) + 1;
    uint64_t pid_and_saved = saved ? (uint64_t)getpid() << 32 | saved : 0;
    note((struct record){kind, inode_of_folder(to), 0, 0, 0, pid_and_saved, length, 0}, names, "");
}

static int refusal(int fd, off_t end) {
    struct stat now;
    if (mode_is("write")) return EIO;
    return mode_is("full") && !fstat(fd, &now) && end > now.st_size ? ENOSPC : 0;
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t offset) {
    char path[PATH_MAX];
    if (!path_of(fd, path)) return real_pwrite(fd, bytes, length, offset);
    pthread_mutex_lock(&lock);
    ssize_t written = -1;
    int error = refusal(fd, offset + (off_t)length);
    if (!error) {
        note_content(WRITE, fd, offset, length);
        written = real_pwrite(fd, bytes, length, offset);
        error = errno;
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return written;
}

ssize_t write(int fd, const void *bytes, size_t length) {
    char path[PATH_MAX];
    if (!path_of(fd, path)) return real_write(fd, bytes, length);
    off_t at = lseek(fd, 0, fcntl(fd, F_GETFL) & O_APPEND ? SEEK_END : SEEK_CUR);
    ssize_t written = pwrite64(fd, bytes, length, at);
    if (written > 0) lseek(fd, at + written, SEEK_SET);
    return written;
}

int ftruncate64(int fd, off_t length) {
    char path[PATH_MAX];
    if (!path_of(fd, path)) return real_ftruncate(fd, length);
    pthread_mutex_lock(&lock);
    note_content(SIZE, fd, length, 0);
    int done = real_ftruncate(fd, length), error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

static int synced(int fd, int (*sync)(int)) {
    char path[PATH_MAX];
    struct stat of;
    if (!path_of(fd, path)) return sync(fd);
    pthread_mutex_lock(&lock);
    int done = -1, error = EIO;
    if (!mode_is("sync")) {
        done = sync(fd), error = errno;
        if (!done && !fstat(fd, &of)) note((struct record){.kind = SYNC, .inode = of.st_ino}, "", "");
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

int fsync(int fd) { return synced(fd, real_fsync); }

int fdatasync(int fd) { return synced(fd, real_fdatasync); }

int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    char full[PATH_MAX];
    if (!(flags & O_CREAT) || !absolute(path, full)) return real_open(path, flags, mode);
    pthread_mutex_lock(&lock);
    struct stat of;
    int is_new = stat(full, &of);
    if (is_new) note_names(CREATE, full, full, 0);
    int fd = real_open(path, flags, mode), error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return fd;
}

int rename(const char *from, const char *to) {
    char old[PATH_MAX], new[PATH_MAX];
    if (!absolute(from, old) || !absolute(to, new)) return real_rename(from, to);
    pthread_mutex_lock(&lock);
    note_names(RENAME, old, new, save(new));
    int done = real_rename(from, to), error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

int unlink(const char *path) {
    char full[PATH_MAX];
    if (!absolute(path, full)) return real_unlink(path);
    pthread_mutex_lock(&lock);
    note_names(REMOVE, full, full, save(full));
    int done = real_unlink(path), error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}
