/* Remembers what a database file was before each write that is not on disk yet, so that a test can take it back.
 *
 * Loaded with LD_PRELOAD. Files named mcpproxy.db and mcpproxy.db-wal are watched. Before a write or a truncation, the
 * bytes that it replaces go to POWER_CUT_DIR/NAME. fsync and fdatasync empty that file: from then on, the file as it is
 * would survive a power cut. power_cut.py takes back the rest.
 *
 * The shared memory of SQLite (-shm) is not watched. It is mapped, never synced, and rebuilt after a crash.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static const char *watched(const char *path) {
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    return strcmp(name, "mcpproxy.db") == 0 || strcmp(name, "mcpproxy.db-wal") == 0 ? name : NULL;
}

/* Finds the journal of an open file. Returns 0 if the file is not watched. */
static int journal_of(int fd, char *journal, size_t size) {
    char link[64], path[4096];
    const char *folder = getenv("POWER_CUT_DIR");
    if (!folder) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    const char *name = watched(path);
    if (!name) return 0;
    snprintf(journal, size, "%s/%s", folder, name);
    return 1;
}

static void must(int holds, const char *what) {
    if (!holds) {
        perror(what);
        abort();
    }
}

/* Writes one entry: offset, size of the file, number of bytes, bytes. */
static void remember(int fd, const char *journal, off_t offset, size_t count) {
    struct stat before;
    must(fstat(fd, &before) == 0, "power_cut: fstat");
    int64_t head[3] = {offset, before.st_size, 0};
    if (offset < before.st_size) {
        int64_t rest = before.st_size - offset;
        head[2] = (int64_t)count < rest ? (int64_t)count : rest;
    }
    char *entry = malloc(sizeof head + (size_t)head[2]);
    must(entry != NULL, "power_cut: malloc");
    memcpy(entry, head, sizeof head);
    if (head[2] > 0) must(pread(fd, entry + sizeof head, (size_t)head[2], offset) == head[2], "power_cut: pread");
    int to = open(journal, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    must(to >= 0, "power_cut: open");
    ssize_t length = (ssize_t)(sizeof head + (size_t)head[2]);
    must(REAL(write)(to, entry, (size_t)length) == length, "power_cut: write");
    close(to);
    free(entry);
}

#define WATCHED_WRITE(name, type, ...)                                              \
    char journal[4352];                                                             \
    if (!journal_of(fd, journal, sizeof journal)) return REAL(name)(__VA_ARGS__);   \
    pthread_mutex_lock(&one_at_a_time);                                             \
    remember(fd, journal, offset, count);                                           \
    type done = REAL(name)(__VA_ARGS__);                                            \
    pthread_mutex_unlock(&one_at_a_time);                                           \
    return done;

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset) {
    WATCHED_WRITE(pwrite, ssize_t, fd, bytes, count, offset)
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset) {
    WATCHED_WRITE(pwrite64, ssize_t, fd, bytes, count, offset)
}

ssize_t write(int fd, const void *bytes, size_t count) {
    off_t offset = lseek(fd, 0, SEEK_CUR);
    /* A pipe or socket has no offset. */
    if (offset < 0) return REAL(write)(fd, bytes, count);
    WATCHED_WRITE(write, ssize_t, fd, bytes, count)
}

int ftruncate(int fd, off_t offset) {
    size_t count = SIZE_MAX / 2;
    WATCHED_WRITE(ftruncate, int, fd, offset)
}

int ftruncate64(int fd, off64_t offset) {
    size_t count = SIZE_MAX / 2;
    WATCHED_WRITE(ftruncate64, int, fd, offset)
}

static int synced(int fd, int (*sync)(int)) {
    char journal[4352];
    if (!journal_of(fd, journal, sizeof journal)) return sync(fd);
    pthread_mutex_lock(&one_at_a_time);
    int done = sync(fd);
    if (done == 0) REAL(unlink)(journal);
    pthread_mutex_unlock(&one_at_a_time);
    return done;
}

int fsync(int fd) { return synced(fd, REAL(fsync)); }

int fdatasync(int fd) { return synced(fd, REAL(fdatasync)); }

/* SQLite removes the write-ahead log after it synced the database. What the log was before no longer matters. */
int unlink(const char *path) {
    const char *name = watched(path), *folder = getenv("POWER_CUT_DIR");
    if (name && folder) {
        char journal[4352];
        snprintf(journal, sizeof journal, "%s/%s", folder, name);
        REAL(unlink)(journal);
    }
    return REAL(unlink)(path);
}
