/** Adds `avg_score`, the mean of the published scores on a scale of 100. Unpublished scores stay absent. */
export function benchmarkScores(scores: Readonly<Record<string, number>>): Record<string, number> {
  const { mmlu, human_eval, mt_bench } = scores;
  const percent = [mmlu, human_eval, mt_bench === undefined ? undefined : mt_bench * 10].filter(
    (score) => score !== undefined,
  );
  if (percent.length === 0) return {};
  const mean = percent.reduce((sum, score) => sum + score, 0) / percent.length;
  return {
    ...(mmlu !== undefined && { mmlu }),
    ...(human_eval !== undefined && { human_eval }),
    ...(mt_bench !== undefined && { mt_bench }),
    avg_score: Math.round(mean * 100) / 100,
  };
}
