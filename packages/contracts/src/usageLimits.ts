// The ledger's limits for one attempt. Proxies cap their events to them: one beyond would be quarantined, and so be missing
// from its principal's spend.

/** A million dollars. A higher cost is a mistake that a person should look at. */
export const MAX_COST_NANO_USD = 10n ** 15n;
/** The sum over all token classes has to fit an integer column. */
export const MAX_TOKENS = 2_147_483_647;
