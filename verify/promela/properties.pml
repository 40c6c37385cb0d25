/*
 * What must be true in every state: a process of one step that is possible only where something is
 * broken. Deadlock (property 5) is the model checker's own: no `end` label stands at a place where
 * a Worker or a Master that has work may stop.
 */
hidden byte property_1, property_2, property_3, property_4, order_of_indices, slot_owner;
hidden byte no_lost_wake_up, all_published, one_wake_up_per_sleep, aux_slot_owner, aux_chain_whole;
hidden byte aux_chain_of_its_slot, aux_no_leak, injection_slot_owner, injection_order;
hidden byte master_no_lost_wake_up, both_asleep, each_token_once, no_token_lost;

/* The name is false; it is there to be read in the report of a violation. */
#define MUST(condition, name) assert((condition) || name)

/* WATCH=1 to 4 leaves that one property of the paper, 5 deadlock alone: to see that it has teeth
 * of its own, and is not only passed because another stands before it. */
#ifndef WATCH
#define WATCH 0
#endif
#if WATCH == 0
#define SLOT_OWNER(condition) MUST(condition, slot_owner)
#else
#define SLOT_OWNER(condition) true
#endif
