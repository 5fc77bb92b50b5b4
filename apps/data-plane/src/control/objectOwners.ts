import { setTimeout as sleep } from 'node:timers/promises';
import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  type FindResponseResponse,
  FindResponseResponse_Ownership as Ownership,
  type RecordResponseRequestSchema,
} from '@weighbridge/contracts';
import { AppError } from '@weighbridge/errors';
import type { ResolvedKey } from '@weighbridge/state';
import type { ControlPlane } from './controlPlane.ts';

/** What an answer names. */
export interface NewObjects {
  /** The response; of an answer that names none, one of the objects. */
  readonly responseId: string;
  readonly objectIds: readonly string[];
  /** The vendor keeps the objects until someone deletes them. */
  readonly areLasting: boolean;
  /** The memory of the largest container that a request naming one of these may reuse; 0: none, or of 1 GB. */
  readonly containerGb: number;
  readonly connectorId: string;
  readonly key: ResolvedKey;
  /** Set if the vendor works on it in the background: the attempt that made it, which is charged its reservation. */
  readonly unfinished: { readonly eventId: string; readonly model: string } | undefined;
}

/** The owner of a stored object: the caller, with the connector that has it; another principal; or unknown. */
export type Owner =
  | {
      readonly kind: 'own';
      readonly connectorId: string;
      /** As recorded; of a control plane that doesn't know, 0. */
      readonly containerGb: number;
      /** A response whose final usage is not known yet. */
      readonly isUnfinished: boolean;
      /** The owner only claims the object: see `claimOf`. */
      readonly isClaim: boolean;
    }
  | { readonly kind: 'foreign'; readonly isClaim: boolean }
  | { readonly kind: 'unknown' };

/** Ownership of what vendors store, which the control plane records for all proxies. */
export interface ObjectOwners {
  /** Resolves once recorded; rejects with a 503 if that fails. */
  record(objects: NewObjects): Promise<void>;
  /** Resolves once recorded, or after a second: what is not recorded by then is tried again until it is. */
  recordSoon(objects: NewObjects): Promise<void>;
  /** Rejects with a 503 if the control plane can't be asked. */
  find(id: string, principalId: string): Promise<Owner>;
  /** The same for several objects, in their order. */
  findAll(ids: readonly string[], principalId: string): Promise<readonly Owner[]>;
}

/**
 * What a request names and its answer repeats was not made by it: it is claimed by whoever used it first. A vendor that issues
 * the same id later makes it another object, which is its maker's. Items of a response that is not stored are claimed too: of
 * those, there is no original. No vendor's id has this sign.
 */
export function claimOf(id: string): string {
  return `~${id}`;
}

const RECORD_TRIES = 3;
const RETRY_PAUSE_MS = 100;
const SOON_MS = 1_000;
const LATER_PAUSE_MS = 5_000;
/** Ids that wait to be recorded. */
const MAX_LATER = 50_000;
/** In one record: a control plane takes no more. */
const MAX_RECORDED = 1_000;
/** At once: each is looked up as made and as claimed. */
const MAX_ASKED = 1_000;
const UNKNOWN: Owner = { kind: 'unknown' };
/** At once, of a control plane that looks up one by one. */
const MAX_CALLS = 16;

type Calls = Pick<ControlPlane, 'recordResponse' | 'findResponse'>;
type RecordMessage = Omit<MessageInitShape<typeof RecordResponseRequestSchema>, '$typeName'>;

/** `producerId` is the spool of this proxy. */
export function createObjectOwners(calls: Calls, producerId: string): ObjectOwners {
  return new ControlPlaneOwners(calls, producerId);
}

class ControlPlaneOwners implements ObjectOwners {
  readonly #calls: Calls;
  readonly #producerId: string;
  readonly #later: RecordMessage[] = [];
  #laterIds = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(calls: Calls, producerId: string) {
    this.#calls = calls;
    this.#producerId = producerId;
  }

  async record(objects: NewObjects): Promise<void> {
    for (const message of this.#messages(objects)) await this.#recordNow(message);
  }

  async #recordNow(message: RecordMessage): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        await this.#calls.recordResponse(message);
        return;
      } catch (error) {
        if (tries === RECORD_TRIES) throw notRecorded(error);
        await sleep(RETRY_PAUSE_MS * tries);
      }
    }
  }

  async recordSoon(objects: NewObjects): Promise<void> {
    const recording = Promise.all(
      this.#messages(objects).map((message) =>
        this.#calls.recordResponse(message).catch(() => this.#recordLater(message)),
      ),
    );
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, SOON_MS);
    });
    await Promise.race([recording, late]);
    clearTimeout(timer);
  }

  async find(id: string, principalId: string): Promise<Owner> {
    return ownerOf(await this.#ask({ responseId: id, principalId }));
  }

  async findAll(ids: readonly string[], principalId: string): Promise<readonly Owner[]> {
    const owners: Owner[] = [];
    for (let at = 0; at < ids.length; at += MAX_ASKED) {
      owners.push(...(await this.#findSome(ids.slice(at, at + MAX_ASKED), principalId)));
    }
    return owners;
  }

  /** The makers of objects, or else who claims them. */
  async #findSome(ids: readonly string[], principalId: string): Promise<readonly Owner[]> {
    const { objects } = await this.#ask({ principalId, objectIds: [...ids, ...ids.map(claimOf)] });
    if (objects.length === 2 * ids.length) {
      const found = objects.map((owner, at) =>
        ownerOf({ ...owner, unfinished: undefined }, at >= ids.length),
      );
      return ids.map(
        (_, at) => (found[at]?.kind === 'unknown' ? found[at + ids.length] : found[at]) ?? UNKNOWN,
      );
    }
    // A control plane of an earlier release, during a rollout.
    const owners: Owner[] = [];
    for (let at = 0; at < ids.length; at += MAX_CALLS) {
      const some = ids.slice(at, at + MAX_CALLS).map((id) => this.find(id, principalId));
      owners.push(...(await Promise.all(some)));
    }
    return owners;
  }

  async #ask(request: Parameters<Calls['findResponse']>[0]): Promise<FindResponseResponse> {
    return await this.#calls.findResponse(request).catch((error) => {
      const message = 'Stored objects cannot be looked up right now. Try again.';
      throw new AppError('unavailable', 'control_plane_unreachable', message, { cause: error });
    });
  }

  #messages({ objectIds, key, unfinished, ...answer }: NewObjects): RecordMessage[] {
    const owned = {
      ...answer,
      principalId: key.principalId,
      keyId: key.id,
      ...(unfinished && { unfinished: { ...unfinished, producerId: this.#producerId } }),
    };
    const messages: RecordMessage[] = [{ ...owned, objectIds: objectIds.slice(0, MAX_RECORDED) }];
    for (let at = MAX_RECORDED; at < objectIds.length; at += MAX_RECORDED) {
      messages.push({ ...owned, objectIds: objectIds.slice(at, at + MAX_RECORDED) });
    }
    return messages;
  }

  #recordLater(message: RecordMessage): void {
    if (this.#laterIds < MAX_LATER) {
      this.#later.push(message);
      this.#laterIds += idsIn(message);
    }
    this.#timer ??= setTimeout(() => void this.#retry(), LATER_PAUSE_MS).unref();
  }

  async #retry(): Promise<void> {
    try {
      for (let next = this.#later[0]; next; next = this.#later[0]) {
        await this.#calls.recordResponse(next);
        this.#later.shift();
        this.#laterIds -= idsIn(next);
      }
    } catch {
      // The control plane is still away.
    }
    this.#timer = undefined;
    if (this.#later.length > 0) this.#timer = setTimeout(() => void this.#retry(), LATER_PAUSE_MS).unref();
  }
}

function idsIn({ objectIds }: RecordMessage): number {
  return 1 + (objectIds?.length ?? 0);
}

function ownerOf(
  {
    ownership,
    connectorId,
    containerGb,
    unfinished,
  }: Pick<FindResponseResponse, 'ownership' | 'connectorId' | 'containerGb' | 'unfinished'>,
  isClaim = false,
): Owner {
  if (ownership === Ownership.OWN) {
    return { kind: 'own', connectorId, containerGb, isUnfinished: unfinished !== undefined, isClaim };
  }
  return ownership === Ownership.FOREIGN ? { kind: 'foreign', isClaim } : UNKNOWN;
}

function notRecorded(cause: unknown): AppError {
  const message = 'The response was created, but its owner could not be recorded, so its id is not returned.';
  // A retry would pay for another response.
  return new AppError('unavailable', 'response_not_recorded', message, {
    headers: { 'x-should-retry': 'false' },
    cause,
  });
}
