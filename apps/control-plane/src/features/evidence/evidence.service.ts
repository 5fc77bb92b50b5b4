import { createHash } from 'node:crypto';
import type { Database } from '@weighbridge/database';
import { byWorkloadType, type Strata, strataIn, workloadTypeKey } from '@weighbridge/domain';
import { readKnownTypes, readStrata } from '@weighbridge/ledger';
import { type PageOf, page, pageRequest, part, positionOf } from '../../http/paging.ts';
import { existingProfile } from '../profiles/profiles.service.ts';
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
  { db, now }: EvidenceDeps,
  query: EvidenceQuery,
): Promise<PageOf<PresentedEvidence>> {
  const wanted = pageRequest(LIST, query, positionOf(isTypeKey, part.text));
  const profile = query.profile_id === undefined ? undefined : await existingProfile(db, query.profile_id);
  const targets = profile && modelsOf(profile.targets);
  const strata = await readStrata(
    db,
    {
      workloadTypes: query.workload_type === undefined ? undefined : [keyOf(query.workload_type)],
      models: targets ?? (query.model === undefined ? undefined : [query.model]),
    },
    now(),
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
    presentEvidence(all, profile !== undefined),
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
    readTypes: () => readKnownTypes(db),
    readStrata: (workloadTypes) => readStrata(db, { workloadTypes }, now()),
    nowMs: () => performance.now(),
  });
}

function modelsOf(targets: unknown): string[] {
  return [...new Set((targets as readonly { readonly model: string }[]).map(({ model }) => model))];
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
