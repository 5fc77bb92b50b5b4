/** Series by name and labels, each with what it is minute by minute, in promtool's notation: `2+0x9` is ten minutes of 2. */
export type SeriesByName = Readonly<Record<string, string>>;

/** Shows by a condition when an alert fires, and by one beside it when it does not. */
export interface AlertCase {
  readonly alert: string;
  /** A condition, and what the alert tells of it at that time, such as `10m`: its labels but for the severity. */
  readonly fires: {
    readonly series: SeriesByName;
    readonly at: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly says: string;
  };
  /** All that the alert looks at is there, and as it should be, or not for long enough. */
  readonly quiet: { readonly series: SeriesByName; readonly at: string };
}

export const NAMESPACE = 'weighbridge';

/** A series as Prometheus has it of a pod. */
export const ofPod = (metric: string, pod = 'data-plane-0', labels = ''): string =>
  `${metric}{namespace="${NAMESPACE}",pod="weighbridge-${pod}"${labels && `,${labels}`}}`;

/** The labels that an alert on a pod has. */
export const onPod = (pod = 'data-plane-0') => ({ namespace: NAMESPACE, pod: `weighbridge-${pod}` });

/** A histogram of which this share of what is measured in a minute takes no longer than `bound`, and all no longer than `most`. */
export const histogram = (
  metric: string,
  { share, bound, most, pod = 'data-plane-0', labels = '' }: HistogramSeries,
): SeriesByName => {
  const rest = labels && `${labels},`;
  return {
    [ofPod(`${metric}_bucket`, pod, `${rest}le="${bound}"`)]: `0+${share * 1000}x60`,
    [ofPod(`${metric}_bucket`, pod, `${rest}le="${most}"`)]: '0+1000x60',
    [ofPod(`${metric}_bucket`, pod, `${rest}le="+Inf"`)]: '0+1000x60',
  };
};

interface HistogramSeries {
  readonly share: number;
  readonly bound: number;
  readonly most: number;
  readonly pod?: string;
  readonly labels?: string;
}
