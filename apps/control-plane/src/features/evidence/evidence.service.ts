import { createHash } from 'node:crypto';
import type { Database } from '@weighbridge/database';
import { byWorkloadType, type Strata, strataIn, workloadTypeKey } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { readStrata, readWorkloadTypes } from '@weighbridge/evidence';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import { readProfile } from '../profiles/profiles.service.ts';
import { type Belief, beliefs, type PresentedEvidence, presentEvidence } from './evidence.ts';
import { createEvidenceFeed, type EvidenceFeed } from './evidenceFeed.ts';

export interface EvidenceDeps {
  readonly db: Database;
  readonly now: () => Date;
}

export interface EvidenceQuery {
  readonly profile_id?: string;
  readonly workload_type?: string;
  readonly model?: string;
  readonly page_size?: string;
  readonly page_token?: string;
}

const LIST = 'evidence';

/** What is believed of models by workload type. With a profile: of its targets, and how often each would come first. */
export async function listEvidence(
  deps: EvidenceDeps,
  query: EvidenceQuery,
): Promise<PageOf<PresentedEvidence>> {
  const wanted = pageRequest(LIST, query, positionOf(isTypeKey, part.text));
  const targets = query.profile_id === undefined ? undefined : await targetsOf(deps, query.profile_id);
  const strata = await readStrata(
    deps.db,
    {
      workloadTypes: query.workload_type === undefined ? undefined : [keyOf(query.workload_type)],
      models: targets ?? (query.model === undefined ? undefined : [query.model]),
    },
    deps.now(),
  );
  const all = beliefs(strata, targets).filter(
    ({ model }) => query.model === undefined || model === query.model,
  );
  const { after } = wanted;
  const from = after ? all.findIndex((belief) => isAfter(belief, after)) : 0;
  const rows = from < 0 ? [] : all.slice(from, from + wanted.size + 1);
  return page(
    LIST,
    wanted,
    rows,
    ({ workloadType, model }) => [workloadType, model],
    presentEvidence(all, targets !== undefined),
  );
}

/** All that is known now, as the proxies would look it up. */
export async function observedStrata({ db, now }: EvidenceDeps): Promise<Strata> {
  const at = now();
  return strataIn(byWorkloadType(await readStrata(db, {}, at)), () => at.getTime());
}

/** What the proxies that watch this control plane are told of it. */
export function evidenceFeed({ db, now }: EvidenceDeps): EvidenceFeed {
  return createEvidenceFeed({
    readTypes: () => readWorkloadTypes(db),
    readStrata: (workloadTypes) => readStrata(db, { workloadTypes }, now()),
    nowMs: () => performance.now(),
  });
}

async function targetsOf(deps: EvidenceDeps, profileId: string): Promise<string[]> {
  const { targets } = await readProfile(deps, profileId).catch((error) => {
    if (!(error instanceof AppError && error.kind === 'not_found')) throw error;
    const message = 'There is no routing profile with this profile_id.';
    throw new AppError('invalid_request', 'profile_not_found', message, { param: 'profile_id' });
  });
  return [...new Set(targets.map(({ model }) => model))];
}

/** Of what a caller says in `X-Svc-Workload-Type`. */
function keyOf(text: string): string {
  return text === '' ? '' : workloadTypeKey({ text, sha256: createHash('sha256').update(text).digest() });
}

function isTypeKey(text: string): boolean {
  return /^([0-9a-f]{16})?$/.test(text);
}

function isAfter({ workloadType, model }: Belief, [type = '', last = '']: readonly string[]): boolean {
  return workloadType > type || (workloadType === type && model > last);
}
