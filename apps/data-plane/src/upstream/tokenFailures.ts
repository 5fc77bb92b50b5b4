import type { Connector } from '@weighbridge/contracts';
import type { IdentityError } from '@weighbridge/identities';
import type { Logger, Metrics } from '@weighbridge/runtime';

/** Counts and logs the failures to get an access token; a source asks seldom while they last, so each has its line. */
export function reportTokenFailures(metrics: Metrics, logger: Pick<Logger, 'error' | 'warn'>) {
  const failures = metrics.counter(
    'weighbridge_connector_token_failures_total',
    'Failures to get an access token for a connector from its identity provider.',
    ['connector'],
  );
  return ({ id, provider }: Connector, { message }: IdentityError, hasToken: boolean): void => {
    failures.inc({ connector: id });
    const detail = { connectorId: id, provider, reason: message };
    if (hasToken)
      logger.warn(detail, 'failed to refresh the access token of a connector; the last one still serves');
    else logger.error(detail, 'failed to get an access token for a connector');
  };
}
