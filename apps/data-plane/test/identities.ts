import { ConnectorIdentities } from '../src/upstream/connectorIdentities.ts';

/** Of tests in which no connector has a computed identity. */
export function noIdentities(): ConnectorIdentities {
  const onFailed = () => {
    throw new Error('no connector of this test has an access token');
  };
  return new ConnectorIdentities({
    onFailed,
    nowMs: () => performance.now(),
    clockMs: Date.now,
    random: Math.random,
    azureEnvironment: {},
  });
}
