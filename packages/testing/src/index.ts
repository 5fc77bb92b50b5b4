export { inheritedEnvironment } from './env.ts';
export { eventually } from './eventually.ts';
export { createExplainedDatabase, type ExplainedStatement, stopStatistics } from './explainedDatabase.ts';
export { type FeedServer, startFeedServer } from './feedServer.ts';
export { expectCost } from './hotPathCost.ts';
export { expectLinear } from './linearTime.ts';
export { untilLockWaits } from './lockWaits.ts';
export { startNats, type TestNats, useNats } from './nats.ts';
export { type OpenTestRun, openTestRun } from './openTestRun.ts';
export { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from './otlpReceiver.ts';
export {
  freePort,
  type ProcessEnd,
  type ProcessOptions,
  startProcess,
  type TestProcess,
} from './processes.ts';
export { findPromtool } from './promtool.ts';
export { requireLinux } from './requireLinux.ts';
export { expectTable } from './table.ts';
export { startTcpRelay, type TcpRelay } from './tcpRelay.ts';
export {
  createEmptyDatabase,
  createTestDatabase,
  type TestDatabase,
  type TestDatabaseOptions,
  useDatabase,
} from './testDatabase.ts';
export { startTestIssuer, TEST_AUDIENCE, type TestClaims, type TestIssuer } from './testIssuer.ts';
export { startTestProvider, type TestProvider, type TestProviderClient } from './testProvider.ts';
export { type TestRun, testRun } from './testRun.ts';
