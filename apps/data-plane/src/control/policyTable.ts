import { toBinary } from '@bufbuild/protobuf';
import { type Key, type Policy, type PolicyCounter, PolicyCounterSchema } from '@weighbridge/contracts';

/** A policy that cached keys name. Mutable: a change of its settings touches this row and no key. */
interface PolicyRow {
  readonly id: string;
  /** Chains of cached keys that name it. */
  chains: number;
  /** That of its newest change while cached keys named it; 0: none. */
  revision: bigint;
  /** As of that change. Undefined: not known, so keys read before it must be read again. */
  settings: PolicyCounter | undefined;
  settingsBytes: number;
}

/** The policies that count for a key, its replacements too. Keys with the same ones share a chain. */
export interface PolicyChain {
  readonly id: string;
  readonly links: readonly { readonly row: PolicyRow; readonly structure: bigint }[];
  /** Cached keys that have it. */
  keys: number;
}

/** A change of policies, up to a revision. */
export interface PolicyChange {
  readonly revision: bigint;
  readonly policyIds: ReadonlySet<string>;
  /** New settings of some of them. */
  readonly policies?: readonly Policy[];
}

/** The room for changed settings. Those that find none are forgotten, and the keys that need them are read again. */
export interface SettingsBudget {
  freeBytes: number;
}

/**
 * The policies that cached keys name. A key has the settings that it was read with, unless its policy's row has newer ones. A
 * policy that no cached key names has no row.
 */
export class PolicyTable {
  readonly #rows = new Map<string, PolicyRow>();
  readonly #chains = new Map<string, PolicyChain>();
  readonly #settings: SettingsBudget;

  constructor(settings: SettingsBudget) {
    this.#settings = settings;
  }

  get size(): number {
    return this.#rows.size;
  }

  /** The chain of a key, with one more key. Release it once the key is not cached any more. */
  acquire(key: Key): PolicyChain {
    const structures = structuresOf(key);
    const id = [...structures].map(([policyId, structure]) => `${policyId} ${structure}`).join(' ');
    const known = this.#chains.get(id);
    const chain = known ?? {
      id,
      keys: 0,
      links: [...structures].map(([policyId, structure]) => ({ row: this.#rowOf(policyId), structure })),
    };
    if (!known) {
      this.#chains.set(id, chain);
      for (const { row } of chain.links) row.chains++;
    }
    chain.keys++;
    return chain;
  }

  release(chain: PolicyChain): void {
    chain.keys--;
    if (chain.keys > 0) return;
    this.#chains.delete(chain.id);
    for (const { row } of chain.links) {
      row.chains--;
      if (row.chains > 0) continue;
      this.#settings.freeBytes += row.settingsBytes;
      this.#rows.delete(row.id);
    }
  }

  /** Applying a change again changes nothing. */
  apply({ revision, policyIds, policies = [] }: PolicyChange): void {
    const changed = new Map(policies.map(({ id, settings }) => [id, settings]));
    for (const id of policyIds) {
      const row = this.#rows.get(id);
      if (row) this.#change(row, revision, changed.get(id));
    }
  }

  /** As `apply`, to the rows of one chain. */
  applyTo({ links }: PolicyChain, { revision, policyIds, policies = [] }: PolicyChange): void {
    for (const { row } of links) {
      if (!policyIds.has(row.id)) continue;
      this.#change(row, revision, policies.find(({ id }) => id === row.id)?.settings);
    }
  }

  #change(row: PolicyRow, revision: bigint, settings: PolicyCounter | undefined): void {
    if (row.revision >= revision) return;
    row.revision = revision;
    const bytes = settings ? toBinary(PolicyCounterSchema, settings).length : 0;
    const freeBytes = this.#settings.freeBytes + row.settingsBytes;
    const hasRoom = bytes <= freeBytes;
    row.settings = hasRoom ? settings : undefined;
    row.settingsBytes = hasRoom ? bytes : 0;
    this.#settings.freeBytes = freeBytes - row.settingsBytes;
  }

  #rowOf(id: string): PolicyRow {
    const row = this.#rows.get(id) ?? { id, chains: 0, revision: 0n, settings: undefined, settingsBytes: 0 };
    this.#rows.set(id, row);
    return row;
  }
}

/** Whether a policy changed so that the key, read at `revision`, may have other policies or counters now. */
export function isChainOutdated({ links }: PolicyChain, revision: bigint): boolean {
  return links.some(
    ({ row, structure }) =>
      row.revision > revision &&
      // Without a structure, the key is from a control plane of release 0.1.0.
      (structure === 0n || row.settings?.structure !== structure),
  );
}

/** The revision of the settings that a key has which was read at `revision`: that of its policies' newest change since. */
export function settingsRevision({ links }: PolicyChain, revision: bigint): bigint {
  let newest = revision;
  for (const { row } of links) if (row.revision > newest) newest = row.revision;
  return newest;
}

/** The key, read at `revision`, with newer settings of its policies. */
export function withNewerSettings(key: Key, { links }: PolicyChain, revision: bigint): Key {
  const newer = new Map<string, PolicyCounter>();
  for (const { row } of links) {
    if (row.revision > revision && row.settings) newer.set(row.id, row.settings);
  }
  if (newer.size === 0) return key;
  const withNewer = (counter: PolicyCounter): PolicyCounter => {
    const { bucket, limits, windowEndMs, windowRemainingMs } = counter;
    const settings = newer.get(bucket?.policyId ?? '');
    if (!settings) return counter;
    return {
      ...settings,
      limits,
      ...(bucket && { bucket }),
      ...(windowEndMs !== undefined && { windowEndMs }),
      ...(windowRemainingMs !== undefined && { windowRemainingMs }),
    };
  };
  const policies = key.policies.map(withNewer);
  const replacements = key.replacements.map((one) => ({ ...one, policies: one.policies.map(withNewer) }));
  return { ...key, policies, replacements };
}

/** The policies that count for a key, each once, with their structures. */
function structuresOf(key: Key): Map<string, bigint> {
  const counters = [key.policies, ...key.replacements.map(({ policies }) => policies)].flat();
  return new Map(
    counters.flatMap(({ bucket, structure }) => (bucket ? [[bucket.policyId, structure] as const] : [])),
  );
}
