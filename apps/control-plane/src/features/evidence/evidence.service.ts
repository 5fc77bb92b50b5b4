import { createHash } from 'node:crypto';
import type { Database } from '@weighbridge/database';
import { byWorkloadType, type Strata, strataIn, workloadTypeKey } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { readStrata, readWorkloadTypes } from '@weighbridge/evidence';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import { readProfile } from '../profiles/profiles.service.ts';
import type { Evidence, EvidenceQuery } from './evidence.schemas.ts';
import { evidenceRows, type ModelEvidence, presentEvidence } from './evidence.ts';
import { EvidenceFeed } from './evidenceFeed.ts';

export interface EvidenceDeps {
  readonly db: Database;
  readonly now: () => Date;
}

const LIST = 'evidence';

/** Evidence by workload type and model. With a profile: of its targets, and how often each is tried first. */
export async function listEvidence(deps: EvidenceDeps, query: EvidenceQuery): Promise<PageOf<Evidence>> {
  const wanted = pageRequest(LIST, query, positionOf(isTypeKey, part.text));
  const targets = query.profile_id === undefined ? undefined : await targetsOf(deps, query.profile_id);
  const strata = await readStrata(
    deps.db,
    {
      workloadTypes: query.workload_type === undefined ? undefined : [typeKeyOf(query.workload_type)],
      models: targets ?? (query.model === undefined ? undefined : [query.model]),
    },
    deps.now(),
  );
  const all = evidenceRows(strata, targets).filter(
    ({ model }) => query.model === undefined || model === query.model,
  );
  const { after } = wanted;
  const from = after ? all.findIndex((row) => isAfter(row, after)) : 0;
  const rows = from < 0 ? [] : all.slice(from, from + wanted.size + 1);
  return page(
    LIST,
    wanted,
    rows,
    ({ workloadType, model }) => [workloadType, model],
    presentEvidence(all, targets !== undefined),
  );
}

/** The current evidence, as proxies look it up. */
export async function currentStrata({ db, now }: EvidenceDeps): Promise<Strata> {
  const at = now();
  return strataIn(byWorkloadType(await readStrata(db, {}, at)), () => at.getTime());
}

/** Feeds the evidence to the proxies that are connected to this control plane. */
export function evidenceFeed({ db, now }: EvidenceDeps): EvidenceFeed {
  return new EvidenceFeed({
    readTypes: () => readWorkloadTypes(db),
    readStrata: (workloadTypes) => readStrata(db, { workloadTypes }, now()),
    nowMs: () => performance.now(),
  });
}

async function targetsOf(deps: EvidenceDeps, profileId: string): Promise<string[]> {
  const { targets } = await readProfile(deps, profileId).catch((error) => {
    if (!(error instanceof AppError && error.kind === 'not_found')) throw error;
    const message = 'There is no routing profile with this profile_id.';
    throw new AppError('validation', 'profile_not_found', message, { param: 'profile_id' });
  });
  return [...new Set(targets.map(({ model }) => model))];
}

/** The key of an `X-Svc-Workload-Type`. */
function typeKeyOf(text: string): string {
  return text === '' ? '' : workloadTypeKey({ text, sha256: createHash('sha256').update(text).digest() });
}

function isTypeKey(text: string): boolean {
  return /^([0-9a-f]{16})?$/.test(text);
}

function isAfter({ workloadType, model }: ModelEvidence, [type = '', last = '']: readonly string[]): boolean {
  return workloadType > type || (workloadType === type && model > last);
}
