import type { IncomingHttpHeaders } from 'node:http';
import type { SaidElsewhere } from '@weighbridge/domain';
import type { ResolvedKey } from '@weighbridge/state';
import { userOfBody } from '../formats/userOfBody.ts';
import type { Action } from './requestContext.ts';

/** What a request says of whom it is for where the policies of its key look for that; undefined if they look nowhere. */
export function saidElsewhere(
  { attributionSources, attribution }: ResolvedKey,
  headers: IncomingHttpHeaders,
  action: Action,
): SaidElsewhere | undefined {
  if (!attributionSources) return undefined;
  const { headers: mapping, userFromBody } = attributionSources;
  // Only then does the body count, which may be large.
  const isNamed = attribution.user !== undefined || Boolean(headers['x-svc-user']);
  const reads = userFromBody && !isNamed && action.kind === 'generation';
  return { headers: mapping, user: reads ? userOfBody(action.body) : undefined };
}
