import type { CurrentState } from '../src/apply/changes.ts';

/** A service without resources. */
export const EMPTY_STATE: CurrentState = {
  profiles: [],
  policies: [],
  teams: [],
  principals: [],
  models: [],
  connectors: [],
  aliases: [],
  webhooks: [],
  keys: [],
  overrides: [],
  prices: {},
};
