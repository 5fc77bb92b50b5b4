/**
 * What the ledger takes of one attempt. Proxies hold their events to it: one beyond would be quarantined, and so be missing
 * from the spend of whoever caused it.
 */

/** A million dollars. What costs more is a mistake that a person should look at. */
export const MAX_COST_NANO_USD = 10n ** 15n;
/** Of all classes together: they are disjoint, so whoever adds them up gets every token, in one column. */
export const MAX_TOKENS = 2_147_483_647;
