/** The four scopes of the interface: what a key holds that was issued without any. */
export const DEFAULT_SCOPES = ['keys:read', 'keys:write', 'usage:read', 'models:read'] as const;

/** All scopes. `inference` and `operator` are never implied; `inference` grants nothing besides what every key may do. */
export const SCOPES = [...DEFAULT_SCOPES, 'inference', 'operator'] as const;

export type Scope = (typeof SCOPES)[number];
