/* Interposes the calls that touch files below one folder: the Nth of them fails, is cut short, or ends the process.
   Loaded by LD_PRELOAD, steered by faults_set() (see faults.py, which builds it). */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* the order is that of KINDS and MODES in faults.py */
enum kind { OPEN_READ, OPEN_WRITE, READ, WRITE, TRUNCATE, SYNC, RENAME, UNLINK, MKDIR, RMDIR, CLOSE, LOCK, MODE, LIST, OPEN_AGAIN, LINK };
enum mode { COUNT, FAIL, FAIL_ON, SHORT, KILL, KILL_AFTER, TORN };
static const char *const KIND[] = {"openr", "openw", "read",  "write", "trunc", "sync", "rename",
                                   "unlink", "mkdir", "rmdir", "close", "lock",  "chmod", "list", "opena", "link"};

static char folder[PATH_MAX];
static size_t length; /* of its name; 0: nothing is watched */
static enum mode mode;
static unsigned counted, failing; /* kinds that are counted; those that fail ever after, with FAIL_ON */
static long wanted;
static int error, list = -1;
static atomic_long number;
static atomic_int struck;

void faults_set(const char *below, int how, unsigned kinds, unsigned ever_after, long nth, int code, int log) {
    length = 0;
    snprintf(folder, sizeof folder, "%s", below);
    mode = (enum mode)how, counted = kinds, failing = ever_after, wanted = nth, error = code, list = log;
    atomic_store(&number, 0);
    atomic_store(&struck, 0);
    length = strlen(folder);
}
void faults_clear(void) { length = 0; }

#define NEXT(type, name, ...) \
    static type (*next)(__VA_ARGS__); \
    if (!next) next = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static ssize_t plain_write(int fd, const void *from, size_t size) {
    NEXT(ssize_t, "write", int, const void *, size_t);
    return next(fd, from, size);
}

static const char *absolute(int at, const char *path, char *room) {
    size_t used;
    if (path[0] == '/') return path;
    if (at == AT_FDCWD) {
        if (!getcwd(room, PATH_MAX)) return path;
    } else {
        char link[40];
        snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        ssize_t size = readlink(link, room, PATH_MAX - 1);
        room[size < 0 ? 0 : size] = 0;
    }
    used = strlen(room);
    snprintf(room + used, PATH_MAX - used, "/%s", path);
    return room;
}
static const char *named(int fd, char *room) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, room, PATH_MAX - 1);
    room[size < 0 ? 0 : size] = 0;
    return room;
}

/* What is to happen to a call: COUNT means nothing.  errno is set where it is to fail. */
static enum mode meet(enum kind kind, const char *path, const char *to) {
    unsigned bit = 1u << kind;
    if (strncmp(path, folder, length) != 0) return COUNT; /* the folder itself counts, too */
    if (mode == FAIL_ON && atomic_load(&struck) && (failing & bit)) {
        errno = error;
        return FAIL;
    }
    long nth = counted & bit ? atomic_fetch_add(&number, 1) + 1 : 0;
    if (list >= 0) {
        char line[2 * PATH_MAX + 64];
        int size = snprintf(line, sizeof line, "%ld\t%s\t%s\t%s\n", nth, KIND[kind], path, to ? to : "");
        if (plain_write(list, line, (size_t)size) < 0) _exit(71);
    }
    if (!nth || nth != wanted || mode == COUNT) return COUNT;
    atomic_store(&struck, 1);
    if (mode == KILL) kill(getpid(), SIGKILL);
    if (mode == FAIL || mode == FAIL_ON) {
        errno = error;
        return FAIL;
    }
    return mode;
}

#define MEET(kind, path, to) \
    char room[PATH_MAX], more[PATH_MAX]; \
    enum mode met = length ? meet(kind, path, to) : COUNT; \
    (void)room, (void)more; \
    if (met == FAIL) return -1
#define HALF(size) (met == SHORT || met == TORN) && size > 1 ? size / 2 : size
#define DONE(type, call) \
    type answer = call; \
    if (met == KILL_AFTER || met == TORN) kill(getpid(), SIGKILL); \
    return answer

static int opened(int at, const char *path, int flags, mode_t rights) {
    NEXT(int, "openat64", int, const char *, int, ...);
    int writes = flags & (O_CREAT | O_WRONLY | O_RDWR | O_TRUNC); /* what is there needs no space to be opened */
    int there = length && writes && faccessat(at, path, F_OK, 0) == 0;
    enum kind kind = there ? OPEN_AGAIN : writes ? OPEN_WRITE : OPEN_READ;
    MEET(kind, absolute(at, path, room), NULL);
    DONE(int, next(at, path, flags, rights));
}
#define RIGHTS \
    mode_t rights = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); rights = va_arg(rest, mode_t); va_end(rest); }
int open(const char *path, int flags, ...) { RIGHTS return opened(AT_FDCWD, path, flags, rights); }
int open64(const char *path, int flags, ...) { RIGHTS return opened(AT_FDCWD, path, flags, rights); }
int openat(int at, const char *path, int flags, ...) { RIGHTS return opened(at, path, flags, rights); }
int openat64(int at, const char *path, int flags, ...) { RIGHTS return opened(at, path, flags, rights); }

ssize_t write(int fd, const void *from, size_t size) {
    MEET(WRITE, named(fd, room), NULL);
    DONE(ssize_t, plain_write(fd, from, HALF(size)));
}
ssize_t pwrite64(int fd, const void *from, size_t size, off64_t place) {
    NEXT(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    MEET(WRITE, named(fd, room), NULL);
    DONE(ssize_t, next(fd, from, HALF(size), place));
}
ssize_t pwrite(int fd, const void *from, size_t size, off_t place) { return pwrite64(fd, from, size, place); }
ssize_t writev(int fd, const struct iovec *from, int count) {
    NEXT(ssize_t, "writev", int, const struct iovec *, int);
    MEET(WRITE, named(fd, room), NULL);
    DONE(ssize_t, next(fd, from, count));
}
ssize_t read(int fd, void *to, size_t size) {
    NEXT(ssize_t, "read", int, void *, size_t);
    MEET(READ, named(fd, room), NULL);
    DONE(ssize_t, next(fd, to, HALF(size)));
}
ssize_t pread64(int fd, void *to, size_t size, off64_t place) {
    NEXT(ssize_t, "pread64", int, void *, size_t, off64_t);
    MEET(READ, named(fd, room), NULL);
    DONE(ssize_t, next(fd, to, HALF(size), place));
}
ssize_t pread(int fd, void *to, size_t size, off_t place) { return pread64(fd, to, size, place); }
int ftruncate64(int fd, off64_t size) {
    NEXT(int, "ftruncate64", int, off64_t);
    MEET(TRUNCATE, named(fd, room), NULL);
    DONE(int, next(fd, size));
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }
int fsync(int fd) {
    NEXT(int, "fsync", int);
    MEET(SYNC, named(fd, room), NULL);
    DONE(int, next(fd));
}
int fdatasync(int fd) {
    NEXT(int, "fdatasync", int);
    MEET(SYNC, named(fd, room), NULL);
    DONE(int, next(fd));
}
int flock(int fd, int how) {
    NEXT(int, "flock", int, int);
    MEET(LOCK, named(fd, room), NULL);
    DONE(int, next(fd, how));
}
static int controlled(int fd, int what, void *how) {
    NEXT(int, "fcntl64", int, int, ...);
    if (what != F_SETLK && what != F_SETLKW && what != F_OFD_SETLK && what != F_OFD_SETLKW) return next(fd, what, how);
    MEET(LOCK, named(fd, room), NULL);
    DONE(int, next(fd, what, how));
}
#define ARGUMENT va_list rest; va_start(rest, what); void *how = va_arg(rest, void *); va_end(rest)
int fcntl(int fd, int what, ...) { ARGUMENT; return controlled(fd, what, how); }
int fcntl64(int fd, int what, ...) { ARGUMENT; return controlled(fd, what, how); }
int close(int fd) { /* it does close, also where it says that it failed; of files that were only read no error comes */
    NEXT(int, "close", int);
    char room[PATH_MAX];
    int writes = length && (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
    enum mode met = writes ? meet(CLOSE, named(fd, room), NULL) : COUNT;
    if (met == FAIL) {
        next(fd);
        errno = error;
        return -1;
    }
    DONE(int, next(fd));
}
int renameat(int from, const char *path, int at, const char *to) {
    NEXT(int, "renameat", int, const char *, int, const char *);
    MEET(RENAME, absolute(from, path, room), absolute(at, to, more));
    DONE(int, next(from, path, at, to));
}
int rename(const char *path, const char *to) { return renameat(AT_FDCWD, path, AT_FDCWD, to); }
int unlinkat(int at, const char *path, int flags) {
    NEXT(int, "unlinkat", int, const char *, int);
    MEET(flags & AT_REMOVEDIR ? RMDIR : UNLINK, absolute(at, path, room), NULL);
    DONE(int, next(at, path, flags));
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int linkat(int from, const char *path, int at, const char *to, int flags) {
    NEXT(int, "linkat", int, const char *, int, const char *, int);
    MEET(LINK, absolute(at, to, room), absolute(from, path, more));
    DONE(int, next(from, path, at, to, flags));
}
int link(const char *path, const char *to) { return linkat(AT_FDCWD, path, AT_FDCWD, to, 0); }
int symlinkat(const char *path, int at, const char *to) {
    NEXT(int, "symlinkat", const char *, int, const char *);
    MEET(LINK, absolute(at, to, room), path);
    DONE(int, next(path, at, to));
}
int symlink(const char *path, const char *to) { return symlinkat(path, AT_FDCWD, to); }
int mkdir(const char *path, mode_t rights) {
    NEXT(int, "mkdir", const char *, mode_t);
    if (access(path, F_OK) == 0) return next(path, rights); /* there already: whatever the disk is like, it says so */
    MEET(MKDIR, absolute(AT_FDCWD, path, room), NULL);
    DONE(int, next(path, rights));
}
int chmod(const char *path, mode_t rights) {
    NEXT(int, "chmod", const char *, mode_t);
    MEET(MODE, absolute(AT_FDCWD, path, room), NULL);
    DONE(int, next(path, rights));
}
DIR *opendir(const char *path) {
    NEXT(DIR *, "opendir", const char *);
    char room[PATH_MAX];
    if (length && meet(LIST, absolute(AT_FDCWD, path, room), NULL) == FAIL) return NULL;
    return next(path);
}
DIR *fdopendir(int fd) {
    NEXT(DIR *, "fdopendir", int);
    char room[PATH_MAX];
    if (length && meet(LIST, named(fd, room), NULL) == FAIL) return NULL;
    return next(fd);
}
struct dirent64 *readdir64(DIR *from) {
    NEXT(struct dirent64 *, "readdir64", DIR *);
    char room[PATH_MAX];
    if (length && meet(LIST, named(dirfd(from), room), NULL) == FAIL) return NULL;
    return next(from);
}
struct dirent *readdir(DIR *from) { return (struct dirent *)readdir64(from); } /* the same where files may be large */
