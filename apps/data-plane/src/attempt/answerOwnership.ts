import { claimOf, type NewObjects, type ObjectOwners } from '../control/objectOwners.ts';
import type { NamedFacts, NamedInAnswer } from '../formats/responseFormat.ts';

export interface Answered extends Pick<NewObjects, 'connectorId' | 'containerGb' | 'key' | 'unfinished'> {
  /** The vendor stores the response itself. Otherwise, what it names may still be there, and is recorded too. */
  readonly isStored: boolean;
  /** The id of the response is one of a stored object, if it is stored. */
  readonly namesResponse: boolean;
  /** The stored response that is read, if none is made. */
  readonly readId?: string;
  /** The objects of others that the request itself named; `all`: the answer repeats what a request sent. */
  readonly repeated?: ReadonlySet<string> | 'all' | undefined;
}

/** Records the owner of what one answer names, as far as it was read, each object once. */
export class AnswerOwnership {
  readonly #owners: Pick<ObjectOwners, 'record' | 'recordSoon'>;
  readonly #answered: Answered;
  #isResponseSaved = false;
  #savedObjects = 0;

  constructor(owners: Pick<ObjectOwners, 'record' | 'recordSoon'>, answered: Answered) {
    this.#owners = owners;
    this.#answered = answered;
  }

  /** The client gets nothing of the answer before its id is known, and nothing at all unless that is recorded. */
  get requiresId(): boolean {
    return this.#answered.isStored;
  }

  /**
   * Records what is new in `facts`; undefined if nothing is. Rejects with a 503 if the vendor stores the response and its owner
   * can't be recorded.
   */
  save(facts: NamedFacts): Promise<void> | undefined {
    if (!this.isNew(facts)) return undefined;
    const { responseId, objects } = facts;
    const { isStored, namesResponse } = this.#answered;
    const isNewResponse = this.#isNewResponse(facts);
    const ids = objects ? this.#newIds(objects) : [];
    this.#savedObjects += ids.length;
    this.#isResponseSaved ||= isNewResponse;
    const { connectorId, containerGb, key, unfinished, readId } = this.#answered;
    const named = {
      // The control plane takes the answer by one id of it.
      responseId: namesResponse && responseId !== '' ? responseId : (readId ?? ids[0] ?? ''),
      objectIds: ids,
      areLasting: objects?.areLasting ?? false,
      containerGb,
      connectorId,
      key,
      unfinished,
    };
    return isStored ? this.#owners.record(named) : this.#owners.recordSoon(named);
  }

  /** Whether `facts` name what is not recorded. */
  isNew(facts: NamedFacts): boolean {
    const { responseId, objects } = facts;
    if (this.#answered.isStored && responseId === '') return false;
    const isNewObject = objects !== undefined && objects.ids.size > this.#savedObjects;
    return isNewObject || this.#isNewResponse(facts);
  }

  #isNewResponse({ responseId }: NamedFacts): boolean {
    return this.#answered.namesResponse && responseId !== '' && !this.#isResponseSaved;
  }

  #newIds({ ids, conversation, areLasting }: NamedInAnswer): string[] {
    const { repeated, readId, isStored } = this.#answered;
    return [...ids].slice(this.#savedObjects).map(([id, kind]) => {
      // The conversation of a response that is read was recorded when the response was made.
      const isRepeated =
        repeated === 'all' || repeated?.has(id) || (readId !== undefined && id === conversation);
      // An item of a response that is not stored has no original, unless it is in a conversation.
      const isPassing = kind === 'item' && !isStored && !areLasting && readId === undefined;
      return isRepeated || isPassing ? claimOf(id) : id;
    });
  }
}
