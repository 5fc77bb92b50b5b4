import { beginning } from './beginning.ts';

/** What becomes of a field that has no counterpart. `refused` names a field because of which the request is not sent. */
export type Verdict = 'changed' | 'dropped' | 'refused';

export interface Loss {
  /** The first place of its kind, such as `messages.3.content.0.cache_control`. */
  readonly path: string;
  readonly verdict: Verdict;
  readonly reason: string;
  /** How many places differ from it in their indexes only. */
  readonly count: number;
}

/** `lenient`: what is changed or dropped is named. `strict`: it is refused. */
export type LossPolicy = 'lenient' | 'strict';

/** More are counted, not listed: a caller can send any number of unknown fields. */
const MAX_LISTED = 256;
const MAX_PATH_LENGTH = 200;
const INDEX = /\.\d+(?=\.|$)/g;

/** The losses of one translation. Places that differ in their indexes only are one loss, so its size stays bounded. */
export class Losses {
  readonly #listed = new Map<string, { path: string; verdict: Verdict; reason: string; count: number }>();
  #unlisted = 0;
  #refusedUnlisted = 0;

  add(path: string, verdict: Verdict, reason: string): void {
    const key = `${verdict} ${lossPattern(path)} ${reason}`;
    const listed = this.#listed.get(key);
    if (listed) listed.count++;
    else if (this.#listed.size < MAX_LISTED) {
      this.#listed.set(key, { path: beginning(path, MAX_PATH_LENGTH), verdict, reason, count: 1 });
    } else {
      this.#unlisted++;
      if (verdict === 'refused') this.#refusedUnlisted++;
    }
  }

  /** A copy, to which one attempt adds its own. */
  copy(): Losses {
    const losses = new Losses();
    for (const [key, loss] of this.#listed) losses.#listed.set(key, { ...loss });
    losses.#unlisted = this.#unlisted;
    losses.#refusedUnlisted = this.#refusedUnlisted;
    return losses;
  }

  get listed(): readonly Loss[] {
    return [...this.#listed.values()];
  }

  /** How many are not listed. */
  get unlisted(): number {
    return this.#unlisted;
  }

  /** What the policy refuses, all of it: a caller should not have to find the refused fields one by one. */
  refused(policy: LossPolicy): readonly Loss[] {
    if (policy === 'strict') return this.listed;
    const refused = this.listed.filter(({ verdict }) => verdict === 'refused');
    if (refused.length > 0 || this.#refusedUnlisted === 0) return refused;
    const count = this.#refusedUnlisted;
    return [{ path: 'body', verdict: 'refused', reason: 'too many fields have no counterpart', count }];
  }

  /** Whether the policy refuses anything, which ends a translation. */
  isRefused(policy: LossPolicy): boolean {
    return this.refused(policy).length > 0;
  }
}

/** A path with `*` for each index. */
export function lossPattern(path: string): string {
  return beginning(path, MAX_PATH_LENGTH).replace(INDEX, '.*');
}
