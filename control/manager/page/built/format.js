// Numbers and times as text.
const STEPS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
/** Three digits and a prefix: 1.23 M. */
export function short(value) {
    for (const [step, prefix] of STEPS) {
        // What would be rounded to 1000 takes the next prefix.
        if (value >= step * 0.9995) {
            const scaled = value / step;
            const digits = scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0;
            return `${scaled.toFixed(digits)} ${prefix}`;
        }
    }
    return value > 0 && value < 9.95 ? String(Number(value.toFixed(1))) : value.toFixed(0);
}
/** Packets in a second; nothing where they are not known. */
export function rate(value) {
    return value === null ? "" : `${short(value)}/s`;
}
/** A count in full: 1,234,567. */
export function count(value) {
    return value.toLocaleString("en");
}
/** A share of 1. */
export function percent(share) {
    return `${(100 * Math.min(Math.max(share, 0), 1)).toFixed(1)} %`;
}
/** The time of day of a moment (RFC 3339), with the date if it is not today's. */
export function moment(text) {
    const date = new Date(text);
    if (Number.isNaN(date.getTime()))
        return text;
    const isToday = date.toDateString() === new Date().toDateString();
    return isToday ? date.toLocaleTimeString("en-GB") : date.toLocaleString("en-GB");
}
/** Bytes in hexadecimal as lines of sixteen, each with the place of its first one. */
export function bytes(text) {
    const lines = text.match(/.{1,32}/g) ?? [];
    const line = (part, at) => {
        const place = (16 * at).toString(16).padStart(4, "0");
        return `${place}  ${(part.match(/.{1,2}/g) ?? []).join(" ")}`;
    };
    return lines.map(line).join("\n");
}
