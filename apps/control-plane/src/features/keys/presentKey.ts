import type { LockedAttribution } from '@weighbridge/domain';
import type { KeyRow } from './keys.repository.ts';

/** A key as the API shows it. */
export interface PresentedKey {
  readonly id: string;
  readonly name: string;
  readonly kind: 'service' | 'user';
  readonly disabled: boolean;
  readonly expires_at: string | null;
  readonly last_used_at: string | null;
  readonly created_at: string;
  readonly updated_at: string;
  readonly revoked_at: string | null;
  /** The policy that governs it now, however it came to. */
  readonly policy_id: string;
  readonly key_hint: string;
  readonly scopes: string[];
  readonly principal_id: string;
  readonly attribution: LockedAttribution;
}

/** With the secret, which is told at issue and never again. */
export type IssuedKey = PresentedKey & { readonly key: string };

export function presentKey(row: KeyRow, policyId: string): PresentedKey {
  return {
    id: row.id,
    name: row.name,
    kind: row.kind,
    disabled: row.disabled,
    expires_at: row.expires_at?.toISOString() ?? null,
    last_used_at: row.last_used_at?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    revoked_at: row.revoked_at?.toISOString() ?? null,
    policy_id: policyId,
    key_hint: row.key_hint,
    scopes: row.scopes,
    principal_id: row.principal_id,
    attribution: row.attribution as LockedAttribution,
  };
}
