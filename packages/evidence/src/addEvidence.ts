import type { Tx } from '@weighbridge/database';
import { added, NO_SUMS, type StratumSums } from '@weighbridge/domain';
import type { LedgerEvent, WorkloadType } from '@weighbridge/ledger';
import { addToStrata, type StratumChange } from './addToStrata.ts';
import { evidenceOf } from './evidenceOf.ts';

/** How many workload types one transaction distinguishes. The rest count as unnamed. */
const MAX_TYPES = 100;
const UNNAMED: WorkloadType = { key: '', name: '' };

/** Adds the evidence of attempts to the strata. Only for rows that the same transaction inserted, or they would count twice. */
export async function addEvidence(tx: Tx, newEvents: readonly LedgerEvent[], now: Date): Promise<void> {
  const changes = new Map<string, StratumChange>();
  const types = new Set<string>();
  for (const event of newEvents) {
    const evidence = evidenceOf(event);
    if (!evidence) continue;
    const type = event.workloadType ?? UNNAMED;
    if (!types.has(type.key) && types.size < MAX_TYPES) types.add(type.key);
    add(changes, types.has(type.key) ? type : UNNAMED, event.row.model, evidence);
  }
  await addToStrata(tx, [...changes.values()], now);
}

function add(
  changes: Map<string, StratumChange>,
  type: WorkloadType,
  model: string,
  evidence: StratumSums,
): void {
  const key = `${type.key}/${model}`;
  const sums = changes.get(key)?.sums ?? NO_SUMS;
  changes.set(key, { type, model, sums: added(sums, evidence) });
}
