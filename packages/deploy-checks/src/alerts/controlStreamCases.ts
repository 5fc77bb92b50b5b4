import { type AlertCase, histogram, NAMESPACE, ofPod, onPod } from './alertCase.ts';

const STATE = ofPod('weighbridge_view_state');
const FAILED = ofPod('weighbridge_failed_updates');
const TABLE = ofPod('weighbridge_table_bytes', 'control-plane-0');
const REVISION = 'weighbridge_applied_revision';
const EXPIRES = ofPod('weighbridge_certificate_expires_timestamp_seconds', 'control-plane-0');
const CALLS = 'weighbridge_control_calls_total';
const REQUESTS = 'weighbridge_management_requests_total';
const calls = (outcome: string) => ofPod(CALLS, 'control-plane-0', `call="lease",outcome="${outcome}"`);
const requests = (status: number) =>
  ofPod(REQUESTS, 'control-plane-0', `method="GET",route="/api/v1/keys",status="${status}"`);

export const CONTROL_STREAM_CASES: readonly AlertCase[] = [
  {
    alert: 'WeighbridgeViewStale',
    fires: {
      series: { [STATE]: '1+0x2 2+0x9' },
      at: '5m',
      labels: onPod(),
      says: 'weighbridge-data-plane-0 has received no heartbeat for some time. It now refuses unknown keys, and refuses every request after MAX_STALENESS_MS.',
    },
    // A control plane was replaced.
    quiet: { series: { [STATE]: '1+0x2 2 1+0x9' }, at: '4m' },
  },
  {
    alert: 'WeighbridgeViewExpired',
    fires: {
      series: { [STATE]: '2+0x9 3' },
      at: '10m',
      labels: onPod(),
      says: 'weighbridge-data-plane-0 returns 503 until its control plane is back.',
    },
    quiet: { series: { [STATE]: '2+0x10' }, at: '10m' },
  },
  {
    alert: 'WeighbridgeUpdatesFail',
    fires: {
      series: { [FAILED]: '0x5 3x5' },
      at: '8m',
      labels: onPod(),
      says: 'weighbridge-data-plane-0 is not ready and learns of no revocation. It refuses every request after MAX_STALENESS_MS.',
    },
    // It missed a change, and got a snapshot.
    quiet: { series: { [FAILED]: '0x5 1 0x5' }, at: '6m' },
  },
  {
    alert: 'WeighbridgeTableLarge',
    fires: {
      series: { [TABLE]: '11534336x5' },
      at: '5m',
      labels: onPod('control-plane-0'),
      says: 'Each proxy holds 11MiB of them, at 15 times that in memory. Writes that add to them are refused from 32 MiB on.',
    },
    quiet: { series: { [TABLE]: '957000x5' }, at: '5m' },
  },
  {
    alert: 'WeighbridgeProxyBehind',
    fires: {
      series: { [ofPod(REVISION)]: '70+1x10', [ofPod(REVISION, 'data-plane-1')]: '70+0x10' },
      at: '5m',
      labels: onPod('data-plane-1'),
      says: 'weighbridge-data-plane-1 is 5 revisions behind: a revoked key may still work there.',
    },
    quiet: {
      series: { [ofPod(REVISION)]: '70+1x10', [ofPod(REVISION, 'data-plane-1')]: '70 70 72+1x10' },
      at: '5m',
    },
  },
  {
    alert: 'WeighbridgePropagationSlow',
    fires: {
      series: histogram('weighbridge_propagation_seconds', {
        share: 0.5,
        bound: 2.5,
        max: 10,
        pod: 'control-plane-0',
      }),
      at: '20m',
      labels: { namespace: NAMESPACE },
      says: 'One in a hundred changes takes more than 9.85s until a proxy has applied it.',
    },
    quiet: {
      series: histogram('weighbridge_propagation_seconds', {
        share: 1,
        bound: 2.5,
        max: 10,
        pod: 'control-plane-0',
      }),
      at: '20m',
    },
  },
  {
    alert: 'WeighbridgeControlCallsFail',
    fires: {
      series: { [calls('error')]: '0+10x20', [calls('ok')]: '0+90x20' },
      at: '15m',
      labels: { namespace: NAMESPACE, call: 'lease' },
      says: '10% of the lease calls fail. Without resolve, new keys are refused; without lease, budgets run dry.',
    },
    quiet: { series: { [calls('error')]: '0+1x20', [calls('ok')]: '0+99x20' }, at: '15m' },
  },
  {
    alert: 'WeighbridgeControlCallsSlow',
    fires: {
      series: histogram('weighbridge_control_call_duration_seconds', {
        share: 0.5,
        bound: 0.5,
        max: 2.5,
        pod: 'control-plane-0',
        labels: 'call="resolve"',
      }),
      at: '20m',
      labels: { namespace: NAMESPACE, call: 'resolve' },
      says: 'One in a hundred resolve calls takes more than 2.46s.',
    },
    quiet: {
      series: histogram('weighbridge_control_call_duration_seconds', {
        share: 1,
        bound: 0.5,
        max: 2.5,
        pod: 'control-plane-0',
        labels: 'call="resolve"',
      }),
      at: '20m',
    },
  },
  {
    alert: 'WeighbridgeManagementErrors',
    fires: {
      series: { [requests(503)]: '0+10x30', [requests(200)]: '0+90x30' },
      at: '20m',
      labels: { namespace: NAMESPACE },
      says: '10% of its requests end in 5xx.',
    },
    // Errors of clients do not count.
    quiet: { series: { [requests(404)]: '0+90x30', [requests(500)]: '0+1x30' }, at: '20m' },
  },
  {
    alert: 'WeighbridgeCertificateExpires',
    fires: {
      series: { [EXPIRES]: '518400+0x120' },
      at: '2h',
      labels: onPod('control-plane-0'),
      says: 'The certificate of weighbridge-control-plane-0 expires in 5d 22h 0m 0s.',
    },
    // Without TLS there is no certificate.
    quiet: {
      series: {
        [EXPIRES]: '2592000+0x120',
        [ofPod('weighbridge_certificate_expires_timestamp_seconds')]: 'NaN+0x120',
      },
      at: '2h',
    },
  },
  {
    alert: 'WeighbridgeCertificateExpired',
    fires: {
      series: { [EXPIRES]: '3600+0x120' },
      at: '2h',
      labels: onPod('control-plane-0'),
      says: "The certificate of weighbridge-control-plane-0 expires in -1h 0m 0s. After that, proxies can't connect to the control plane.",
    },
    quiet: { series: { [EXPIRES]: '518400+0x120' }, at: '2h' },
  },
];
