/** Series by name and labels, with a value per minute in promtool's notation: `2+0x9` is ten minutes of 2. */
export type SeriesByName = Readonly<Record<string, string>>;

/** A condition under which an alert fires, and a similar one under which it does not. */
export interface AlertCase {
  readonly alert: string;
  /** At `at` (such as `10m`), the alert fires with these labels (besides the severity) and this description. */
  readonly fires: {
    readonly series: SeriesByName;
    readonly at: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly says: string;
  };
  /** Has every metric that the alert reads, with normal values, or abnormal ones for too short a time. */
  readonly quiet: { readonly series: SeriesByName; readonly at: string };
}

export const NAMESPACE = 'weighbridge';

/** A series of a pod, as Prometheus stores it. */
export const ofPod = (metric: string, pod = 'data-plane-0', labels = ''): string =>
  `${metric}{namespace="${NAMESPACE}",pod="weighbridge-${pod}"${labels && `,${labels}`}}`;

/** The labels of an alert on a pod. */
export const onPod = (pod = 'data-plane-0') => ({ namespace: NAMESPACE, pod: `weighbridge-${pod}` });

/** A histogram in which this share of each minute's values is at most `bound`, and all are at most `max`. */
export const histogram = (
  metric: string,
  { share, bound, max, pod = 'data-plane-0', labels = '' }: HistogramSeries,
): SeriesByName => {
  const rest = labels && `${labels},`;
  return {
    [ofPod(`${metric}_bucket`, pod, `${rest}le="${bound}"`)]: `0+${share * 1000}x60`,
    [ofPod(`${metric}_bucket`, pod, `${rest}le="${max}"`)]: '0+1000x60',
    [ofPod(`${metric}_bucket`, pod, `${rest}le="+Inf"`)]: '0+1000x60',
  };
};

interface HistogramSeries {
  readonly share: number;
  readonly bound: number;
  readonly max: number;
  readonly pod?: string;
  readonly labels?: string;
}
