import { setTimeout as sleep } from 'node:timers/promises';
import { FindResponseResponse_Ownership as Ownership } from '@weighbridge/contracts';
import { AppError } from '@weighbridge/errors';
import type { ControlPlane } from './controlPlane.ts';
import type { ResolvedKey } from './resolvedKey.ts';

export interface NewResponse {
  readonly responseId: string;
  readonly connectorId: string;
  readonly key: ResolvedKey;
  /** Set if the vendor works on it in the background: the attempt that made it, which is charged its reservation. */
  readonly unfinished: { readonly eventId: string; readonly model: string } | undefined;
}

/** The owner of a stored response: the caller, with the connector that made it; another principal; or unknown. */
type Owner =
  | {
      readonly kind: 'own';
      readonly connectorId: string;
      /** Its final usage is not known yet. */
      readonly isUnfinished: boolean;
    }
  | { readonly kind: 'foreign' }
  | { readonly kind: 'unknown' };

/** Ownership of stored responses, which the control plane records for all proxies. */
export interface ResponseOwners {
  /** Resolves once recorded; rejects with a 503 if that fails. */
  record(response: NewResponse): Promise<void>;
  /** Rejects with a 503 if the control plane can't be asked. */
  find(responseId: string, principalId: string): Promise<Owner>;
}

const RECORD_TRIES = 3;
const RETRY_PAUSE_MS = 100;

/** `producerId` is the spool of this proxy. */
export function createResponseOwners(
  { recordResponse, findResponse }: Pick<ControlPlane, 'recordResponse' | 'findResponse'>,
  producerId: string,
): ResponseOwners {
  return {
    async record({ responseId, connectorId, key, unfinished }) {
      const owner = { principalId: key.principalId, keyId: key.id };
      for (let tries = 1; ; tries++) {
        try {
          await recordResponse({
            ...{ responseId, connectorId, ...owner },
            ...(unfinished && { unfinished: { ...unfinished, producerId } }),
          });
          return;
        } catch (error) {
          if (tries === RECORD_TRIES) throw notRecorded(error);
          await sleep(RETRY_PAUSE_MS * tries);
        }
      }
    },

    async find(responseId, principalId) {
      const found = await findResponse({ responseId, principalId }).catch((error) => {
        const message = 'Stored responses cannot be looked up right now. Try again.';
        throw new AppError('unavailable', 'control_plane_unreachable', message, { cause: error });
      });
      if (found.ownership === Ownership.OWN) {
        const { connectorId, unfinished } = found;
        return { kind: 'own', connectorId, isUnfinished: unfinished !== undefined };
      }
      return { kind: found.ownership === Ownership.FOREIGN ? 'foreign' : 'unknown' };
    },
  };
}

function notRecorded(cause: unknown): AppError {
  const message = 'The response was created, but its owner could not be recorded, so its id is not returned.';
  // A retry would pay for another response.
  return new AppError('unavailable', 'response_not_recorded', message, {
    headers: { 'x-should-retry': 'false' },
    cause,
  });
}
