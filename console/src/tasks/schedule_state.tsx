// The state of a schedule as a badge.
import { Badge, type Tone } from '../ui/feedback.tsx';
import { type ScheduleRecord, type ScheduleState, scheduleStateOf } from './schedules.ts';

const labels: Readonly<Record<ScheduleState, string>> = {
  active: 'Active',
  paused: 'Paused',
  unconfirmed: 'Needs confirmation',
};
const tones: Readonly<Record<ScheduleState, Tone>> = { active: 'success', paused: 'neutral', unconfirmed: 'warning' };

export const scheduleStateLabel = (schedule: ScheduleRecord): string => labels[scheduleStateOf(schedule)];

export function ScheduleBadge({ schedule }: { readonly schedule: ScheduleRecord }) {
  const state = scheduleStateOf(schedule);
  return <Badge tone={tones[state]}>{labels[state]}</Badge>;
}
