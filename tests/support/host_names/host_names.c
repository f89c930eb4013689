/* Before a process's own libc (LD_PRELOAD): each host whose name ends with HOSTS_HERE is 127.0.0.1. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    int (*true_getaddrinfo)() = (int (*)())dlsym(RTLD_NEXT, "getaddrinfo");
    const char *end = getenv("HOSTS_HERE");
    size_t length = end ? strlen(end) : 0;
    if (length && host && strlen(host) >= length && !strcmp(host + strlen(host) - length, end))
        host = "127.0.0.1";
    return true_getaddrinfo(host, service, hints, found);
}
