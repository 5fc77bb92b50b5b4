/** The pages of the console with their titles. */
export const PATHS = [
  ['/', 'Overview'],
  ['/usage', 'Usage'],
  ['/requests', 'Requests'],
  ['/keys', 'Keys'],
  ['/teams', 'Principals & teams'],
  ['/policies', 'Policies'],
  ['/overrides', 'Overrides'],
  ['/models', 'Models & prices'],
  ['/playground', 'Playground'],
  ['/connectors', 'Connectors'],
  ['/profiles', 'Profiles & evidence'],
  ['/webhooks', 'Alerts & webhooks'],
  ['/health', 'Health'],
  ['/audit', 'Audit'],
  ['/connect', 'Connect a client'],
] as const;
