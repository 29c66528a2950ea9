// Memory and spill over time as two lines. The lines are stretched to the width of the page; the labels of the axes are text beside them.
import { formatBytes } from '../ui/format.ts';
import type { Sample } from './usage.ts';
import styles from './warehouses_room.module.css';

/** Units of the drawing, which has no size of its own. */
const width = 1000;
const height = 100;
const leastRange = 1_000_000;

const time = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });

interface UsageChartProps {
  readonly samples: readonly Sample[];
  readonly hasSpill: boolean;
}

export function UsageChart({ samples, hasSpill }: UsageChartProps) {
  const [first, last] = [samples[0], samples.at(-1)];
  if (!first || !last) return <div className={styles.chart} />;
  const peak = samples.reduce((max, { memoryBytes, spilledBytes }) => Math.max(max, memoryBytes, spilledBytes), 0);
  const top = Math.max(leastRange, peak * 1.1);
  const lengthMs = Math.max(1, last.at - first.at);
  const lineOf = (field: 'memoryBytes' | 'spilledBytes') =>
    samples
      .map((sample) => {
        const x = ((sample.at - first.at) / lengthMs) * width;
        return `${x.toFixed(1)},${(height - (sample[field] / top) * height).toFixed(2)}`;
      })
      .join(' ');
  const label = hasSpill
    ? `Memory and spill over time; now memory ${formatBytes(last.memoryBytes)}, spill ${formatBytes(last.spilledBytes)}`
    : `Memory over time; now ${formatBytes(last.memoryBytes)}`;
  return (
    <div className={styles.chart} role="img" aria-label={label}>
      <div className={styles.scale} aria-hidden>
        {[top, top / 2, 0].map((bytes) => (
          <span key={bytes}>{formatBytes(bytes)}</span>
        ))}
      </div>
      <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden>
        {[0.5, height / 2, height - 0.5].map((y) => (
          <line key={y} x1="0" x2={width} y1={y} y2={y} />
        ))}
        <polyline data-series="memory" points={lineOf('memoryBytes')} />
        {hasSpill && <polyline data-series="spill" points={lineOf('spilledBytes')} />}
      </svg>
      <div className={styles.times} aria-hidden>
        <span>{time.format(first.at)}</span>
        <span>{time.format(last.at)}</span>
      </div>
    </div>
  );
}
