/** The scopes of a key that is issued without a list of scopes. */
export const DEFAULT_SCOPES = ['keys:read', 'keys:write', 'usage:read', 'models:read'] as const;

/** All scopes. `inference`, `admin:read` and `operator` are never granted by default. */
export const SCOPES = [...DEFAULT_SCOPES, 'inference', 'admin:read', 'operator'] as const;

export type Scope = (typeof SCOPES)[number];
