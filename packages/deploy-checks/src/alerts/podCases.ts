import { type AlertCase, NAMESPACE, ofPod, onPod } from './alertCase.ts';

const UP = 'up';
const ready = (pod: string) => ofPod('kube_pod_status_ready', pod, 'condition="true"');
const RESTARTS = ofPod('kube_pod_container_status_restarts_total', 'metering-0', 'container="metering"');
const MEMORY = ofPod('container_memory_working_set_bytes', 'metering-0', 'container="metering"');
const OF_POD = ofPod('container_memory_working_set_bytes', 'metering-0', 'container=""');
const LIMIT = ofPod(
  'kube_pod_container_resource_limits',
  'metering-0',
  'container="metering",resource="memory"',
);

export const POD_CASES: readonly AlertCase[] = [
  {
    alert: 'WeighbridgeTargetDown',
    fires: {
      series: { [ofPod(UP, 'metering-0')]: '1+0x2 0+0x9' },
      at: '9m',
      labels: onPod('metering-0'),
      says: 'weighbridge-metering-0 does not answer.',
    },
    // Other pods in the namespace have their own alerts.
    quiet: { series: { [ofPod(UP, 'metering-0')]: '1+0x9', [ofPod(UP, 'nats-0')]: '0+0x9' }, at: '9m' },
  },
  {
    alert: 'WeighbridgeControlPlaneAbsent',
    fires: {
      series: { 'weighbridge_watchers{namespace="another",pod="weighbridge-control-plane-0"}': '3+0x9' },
      at: '6m',
      labels: { namespace: NAMESPACE },
      says: 'Prometheus sees none. Proxies serve what they know until MAX_STALENESS_MS is over.',
    },
    quiet: { series: { [ofPod('weighbridge_watchers', 'control-plane-0')]: '3+0x9' }, at: '6m' },
  },
  {
    alert: 'WeighbridgeDataPlaneAbsent',
    fires: {
      series: { [ofPod('weighbridge_watchers', 'control-plane-0')]: '0+0x9' },
      at: '3m',
      labels: { namespace: NAMESPACE },
      says: 'Prometheus sees none: no request is served.',
    },
    quiet: { series: { [ofPod('weighbridge_view_state')]: '1+0x9' }, at: '3m' },
  },
  {
    alert: 'WeighbridgeMeteringAbsent',
    fires: {
      series: { [ofPod('weighbridge_view_state')]: '1+0x19' },
      at: '12m',
      labels: { namespace: NAMESPACE },
      says: 'Prometheus sees none. Usage waits in the stream and in the spools.',
    },
    quiet: { series: { [ofPod('weighbridge_ledger_lag_seconds', 'metering-0')]: '1+0x19' }, at: '12m' },
  },
  {
    alert: 'WeighbridgePodNotReady',
    fires: {
      series: { [ready('data-plane-0')]: '0+0x19', [ready('data-plane-1')]: '1+0x19' },
      at: '15m',
      labels: onPod(),
      says: 'weighbridge-data-plane-0 gets no traffic.',
    },
    quiet: { series: { [ready('data-plane-0')]: '0+0x3 1+0x19' }, at: '15m' },
  },
  {
    alert: 'WeighbridgePodRestarts',
    fires: {
      series: { [RESTARTS]: '0+0x5 1+1x40' },
      at: '40m',
      labels: onPod('metering-0'),
      says: 'weighbridge-metering-0 was restarted 30 times in half an hour.',
    },
    quiet: { series: { [RESTARTS]: '0+0x5 1+0x40' }, at: '20m' },
  },
  {
    alert: 'WeighbridgeMemoryHigh',
    fires: {
      series: { [MEMORY]: '950+0x19', [LIMIT]: '1000+0x19' },
      at: '15m',
      labels: onPod('metering-0'),
      says: 'weighbridge-metering-0 uses 95% of its memory limit; above the limit it is killed.',
    },
    quiet: { series: { [MEMORY]: '700+0x19', [OF_POD]: '950+0x19', [LIMIT]: '1000+0x19' }, at: '15m' },
  },
];
