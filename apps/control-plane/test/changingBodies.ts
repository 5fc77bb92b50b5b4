export const price = (units: number) => {
  const amount = { currency_code: 'USD', units, nanos: 0 };
  return { input_price: amount, output_price: amount };
};

/** A body that changes the resource, another one for each number. Without a body: undefined. */
export const CHANGING_BODIES: Readonly<Record<string, (n: number) => object | undefined>> = {
  // None is the role that a new principal has: that would change nothing, so another change could follow.
  putPrincipal: (n) =>
    [{ role: 'finance' }, { role: 'auditor' }, { role: 'operator' }, { active: false }][n % 4],
  putCatalogModel: (n) => ({ context_window: 2_000 + n }),
  updateCatalogModel: (n) => ({ context_window: 3_000 + n }),
  createCatalogPrice: (n) => price(10 + n),
  putConnectorPrice: (n) => price(20 + n),
  updateAlias: (n) => ({ name: `changed-${n}-${Math.random()}` }),
  updateConnector: (n) => ({ weight: 2 + n }),
  updateKey: (n) => ({ name: `changed ${n}` }),
  updateOverride: (n) => ({ limit_micro_usd: 3_000 + n }),
  updatePolicy: (n) => ({ limit_micro_usd: 1_000_000 + n }),
  updateProfile: (n) => ({ targets: [{ model: 'mock/echo', weight: 2 + n }] }),
  updateTeam: (n) => ({ name: `changed-${n}-${Math.random()}` }),
  updateWebhook: (n) => ({ name: `changed-${n}` }),
  rotateKey: () => ({}),
  rotateWebhook: () => ({}),
};
