// The ledger's bounds for one attempt. Proxies send what is beyond them as it is: metering puts it in quarantine, and the budget is
// charged its reservation until an operator decides.

/** A million dollars. A higher cost is a mistake that a person should look at. */
export const MAX_COST_NANO_USD = 10n ** 15n;
/** The sum over all token classes has to fit an integer column. */
export const MAX_TOKENS = 2_147_483_647;
/** Of one class. The largest context windows have a thousandth of it. */
export const MAX_CLASS_TOKENS = 1_000_000_000;
