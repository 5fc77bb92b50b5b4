import { ETAG_HEADER, REQUEST_ID_HEADER } from './errors.ts';
import type { Operation } from './types.ts';

const text = (description: string) => ({ description, schema: { type: 'string' } });

const PROPAGATION = {
  'x-svc-propagated': text(
    'With `wait=propagated`: `true` once no proxy serves the state before the change, `false` after `timeout_ms`.',
  ),
  'x-svc-pending-proxies': text(
    'The ids of proxies that may still serve the state before the change, up to 50, separated by commas.',
  ),
};
const REPLAY = {
  'idempotency-replayed': text('`true` if an earlier request with the same key was answered so.'),
};

const BODY_ETAG = {
  etag: text('Weak: changes with the answer. `If-None-Match` takes it.'),
};

const COMPLETE = {
  'x-svc-complete': text('`true` if all usage of the range is known to be included.'),
};

/** The headers of the successful responses of a management operation, by what it takes. */
export function responseHeaders({
  operationId,
  parameters = [],
  responses,
  'x-etag': hasEtag,
}: Operation): Readonly<Record<string, object>> {
  const takes = (name: string) => parameters.some((one) => one.name === name);
  return {
    ...REQUEST_ID_HEADER,
    ...(hasEtag && ETAG_HEADER),
    ...('304' in responses && BODY_ETAG),
    ...(operationId === 'exportFocus' && COMPLETE),
    ...(takes('wait') && PROPAGATION),
    ...(takes('idempotency-key') && REPLAY),
  };
}
