/* The exchange of one Worker with one or two Master threads. See README.md. */
#include "properties.pml"
#include "link.pml"
#include "wakeup.pml"
#include "worker.pml"
#include "master.pml"
#include "monitor.pml"

init {
    atomic {
        select (mt : MT_MIN..MT_MAX);
        select (wt : WT_MIN..WT_MAX);
        resting[0] = true;
        resting[LINKS - 1] = true;
#if PUBLISHED
        status = WAITING;
#endif
#if STORE_BUFFERS
        run WorkerBuffer();
        run MasterBuffer(0);
#if LINKS > 1
        run MasterBuffer(1);
#endif
#endif
        run Worker();
        run Master(0);
#if LINKS > 1
        run Master(1);
#endif
#if CRASH
        run Supervisor();
#endif
#if !LIVE
        run Properties()
#endif
    }
}
