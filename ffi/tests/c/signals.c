/* A storm of signals while statements run: their handlers run on threads of the host alone, and no statement hears of them. */

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <unistd.h>

#include "host.h"

enum { QUERIES = 20000, IN_FLIGHT_MAX = 100, SIGNALS_MIN = 1000 };

static _Thread_local volatile sig_atomic_t is_ours;
static atomic_uint handled, strayed;
static atomic_bool over;

static void handle(int signal) {
    (void)signal;
    atomic_fetch_add(is_ours ? &handled : &strayed, 1);
}

static void *storm(void *mask) {
    static const int signals[] = {SIGINT, SIGCHLD, SIGUSR1, SIGPROF, SIGTERM, SIGPIPE};
    is_ours = 1;
    CHECK_EQUAL(pthread_sigmask(SIG_SETMASK, mask, NULL), 0);
    for (unsigned number = 0; !atomic_load(&over); number++) {
        /* To the process: the kernel gives it to any thread that does not block it. */
        kill(getpid(), signals[number % 6]);
        usleep(50);
    }
    return NULL;
}

/* The library's threads are named so. */
static unsigned threads_that_block_all(void) {
    unsigned found = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char path[300], line[256], name[64] = "";
        uint64_t blocked = 0;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *file = fopen(path, "r");
        while (file != NULL && fgets(line, sizeof line, file) != NULL) {
            sscanf(line, "Name: %63s", name);
            sscanf(line, "SigBlk: %" SCNx64, &blocked);
        }
        if (file != NULL) {
            fclose(file);
        }
        if (strncmp(name, "cenote", 6) == 0) {
            found++;
            static const int signals[] = {SIGINT, SIGCHLD, SIGUSR1, SIGPROF, SIGALRM, SIGPIPE, SIGTERM, SIGHUP};
            for (size_t number = 0; number < sizeof signals / sizeof *signals; number++) {
                if (!(blocked >> (signals[number] - 1) & 1)) {
                    fprintf(stderr, "%s does not block signal %d\n", name, signals[number]);
                    abort();
                }
            }
        }
    }
    closedir(tasks);
    return found;
}

int main(int argc, char **argv) {
    CHECK_EQUAL(argc, 2);
    is_ours = 1;
    /* Without SA_RESTART: whatever can be interrupted is. */
    struct sigaction action = {.sa_handler = handle};
    static const int signals[] = {SIGINT, SIGCHLD, SIGUSR1, SIGPROF, SIGALRM, SIGTERM, SIGPIPE};
    for (size_t number = 0; number < sizeof signals / sizeof *signals; number++) {
        CHECK_EQUAL(sigaction(signals[number], &action, NULL), 0);
    }
    uint64_t context = new_context(), pool = open_pool(context, argv[1]);
    /* Blocked while the thread begins: it could get one before it has said whose it is. */
    sigset_t all, before;
    sigfillset(&all);
    CHECK_EQUAL(pthread_sigmask(SIG_SETMASK, &all, &before), 0);
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, storm, &before), 0);
    CHECK_EQUAL(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    struct itimerval often = {{0, 500}, {0, 500}};
    CHECK_EQUAL(setitimer(ITIMER_REAL, &often, NULL), 0);

    uint64_t asked = 0, answered = 0;
    while (answered < QUERIES || atomic_load(&handled) < SIGNALS_MIN) {
        while (asked - answered < IN_FLIGHT_MAX) {
            CHECK_OK(ask(context, pool, "select 1", asked++));
        }
        uint32_t count = await_some(context);
        for (uint32_t number = 0; number < count; number++) {
            const cenote_completion *completion = (const cenote_completion *)buffer + number;
            if (completion->status != CENOTE_OK) {
                print_error(completion->handle);
            }
            CHECK_OK(completion->status);
            cenote_completion_free(completion);
        }
        answered += count;
    }
    CHECK(threads_that_block_all() >= 2);
    CHECK_EQUAL(atomic_load(&strayed), 0);
    struct itimerval never = {{0, 0}, {0, 0}};
    CHECK_EQUAL(setitimer(ITIMER_REAL, &never, NULL), 0);
    atomic_store(&over, 1);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK_OK(cenote_context_free(context));
    nothing_is_left();
    return 0;
}
