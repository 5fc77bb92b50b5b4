/** What each group of operations is for. */
export const TAG_DESCRIPTIONS: Readonly<Record<string, string>> = {
  Keys: 'The secrets that clients send: issue, restrict, rotate and revoke them.',
  Policies: 'Limits per window, rate limits, and the models that keys may use.',
  Principals: 'The persons, services and teams to which spend belongs.',
  Profiles: 'Routing profiles: which model serves a request for `router/<name>`.',
  Proxies: 'The proxies that serve inference, and how complete their usage is.',
  Audit: 'Who changed what, and when.',
  Evidence: 'How models did recently, by workload type.',
  Usage: 'Spend against the limits of a policy.',
  Spend: 'Spend by dimensions and time.',
  Requests: 'Single requests in the ledger, and corrections of their cost.',
  Ledger: 'Compares buckets with the ledger.',
  Quarantine: 'Usage that the ledger refused.',
  Models: 'The models that a key can route to.',
  Connectors: 'Accounts at vendors: addresses, credentials, limits, negotiated prices.',
  Catalog: 'All models that are known, with their prices, sizes and capabilities.',
  Inference: 'Requests to models, in the formats of OpenAI and Anthropic.',
};
