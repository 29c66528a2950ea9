// A line of a few values without axes: a trend beside its number.
import styles from './sparkline.module.css';

interface SparklineProps {
  readonly label: string;
  readonly values: readonly number[];
  readonly width?: number;
  readonly height?: number;
}

export function Sparkline({ label, values, width = 96, height = 24 }: SparklineProps) {
  const max = Math.max(...values, 0);
  const min = Math.min(...values, 0);
  const range = max - min || 1;
  const step = values.length > 1 ? (width - 2) / (values.length - 1) : 0;
  const points = values.map((value, i) => `${1 + i * step},${height - 2 - ((value - min) / range) * (height - 4)}`);
  return (
    <svg role="img" aria-label={label} width={width} height={height} className={styles.line}>
      <polyline points={points.join(' ')} />
    </svg>
  );
}
